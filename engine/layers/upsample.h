// Images made larger (or smaller), as PyTorch's nn.Upsample. One thread at a time; no state.
#pragma once

#include <optional>
#include <string>

#include "dlpipe/engine/layers/module.h"
#include "dlpipe/engine/layers/size2.h"
#include "dlpipe/engine/ops/resize.h"

namespace dlpipe::engine {

enum class UpsampleMode : uint8_t { kNearest, kNearestExact, kBilinear };

struct UpsampleArguments {
  std::optional<Size2> size = {};  // of the output; `scale` times the input's when not given
  double scale = 2;
  UpsampleMode mode = UpsampleMode::kNearest;
  bool align_corners = false;  // of kBilinear
};

/// [N,H,W,C] -> [N,OH,OW,C].
class Upsample final : public Module {
 public:
  explicit Upsample(const UpsampleArguments& arguments = {});
  Tensor forward(const Tensor& x) override;
  std::string kind() const override { return "Upsample"; }
  double flops(const TensorSpec& x, const TensorSpec& y) const override;

 private:
  ResizeAttrs attrs_;
  std::optional<Size2> size_;
  double scale_;
};

}  // namespace dlpipe::engine
