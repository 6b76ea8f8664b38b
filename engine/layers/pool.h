// Pooling layers, as PyTorch's. One thread at a time; no state.
#pragma once

#include <optional>
#include <string>

#include "dlpipe/engine/layers/module.h"
#include "dlpipe/engine/layers/size2.h"
#include "dlpipe/engine/ops/ops.h"

namespace dlpipe::engine {

struct Pool2dArguments {
  std::optional<Size2> stride;  // the kernel's size when not given
  Size2 padding = 0;
  bool ceil_mode = false;
  bool count_include_pad = true;  // averages only
};

/// [N,H,W,C] -> [N,OH,OW,C].
class MaxPool2d final : public Module {
 public:
  explicit MaxPool2d(Size2 kernel, const Pool2dArguments& arguments = {});
  Tensor forward(const Tensor& x) override { return max_pool2d(x, attrs_); }
  std::string kind() const override { return "MaxPool2d"; }
  double flops(const TensorSpec& x, const TensorSpec& y) const override;

 private:
  Pool2dAttrs attrs_;
};

class AvgPool2d final : public Module {
 public:
  explicit AvgPool2d(Size2 kernel, const Pool2dArguments& arguments = {});
  Tensor forward(const Tensor& x) override { return avg_pool2d(x, attrs_); }
  std::string kind() const override { return "AvgPool2d"; }
  double flops(const TensorSpec& x, const TensorSpec& y) const override;

 private:
  Pool2dAttrs attrs_;
};

/// [N,H,W,C] -> [N,C]: PyTorch's AdaptiveAvgPool2d(1) and flatten in one.
class GlobalAvgPool final : public Module {
 public:
  Tensor forward(const Tensor& x) override { return global_avg_pool(x); }
  std::string kind() const override { return "GlobalAvgPool"; }
  double flops(const TensorSpec& x, const TensorSpec& y) const override;
};

}  // namespace dlpipe::engine
