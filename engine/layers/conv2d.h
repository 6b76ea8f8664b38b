// 2-d convolution with its weights, as PyTorch's nn.Conv2d. One thread at a time.
#pragma once

#include <cstdint>
#include <string>

#include "dlpipe/engine/layers/module.h"
#include "dlpipe/engine/layers/size2.h"
#include "dlpipe/engine/ops/ops.h"

namespace dlpipe::engine {

struct Conv2dArguments {
  Size2 stride = 1;
  Size2 padding = 0;
  Size2 dilation = 1;
  int groups = 1;
  bool bias = true;
};

/// x [N,H,W,in] -> [N,OH,OW,out]. weight [out, in/groups, KH, KW], bias [out].
class Conv2d final : public Module {
 public:
  Conv2d(int64_t in, int64_t out, Size2 kernel, const Conv2dArguments& arguments = {});
  Tensor forward(const Tensor& x) override;
  std::string kind() const override { return "Conv2d"; }
  double flops(const TensorSpec& x, const TensorSpec& y) const override;
  void reset_parameters(uint64_t seed, const std::string& prefix) override;

 protected:
  Tensor forward_activated(const Tensor& x, Activation activation) override;

 private:
  Conv2dAttrs attrs_;
  Tensor weight_;
  Tensor bias_;
};

}  // namespace dlpipe::engine
