// conv_unit: a convolution with what follows it in networks that only answer: activation(conv2d(x)) + residual.
// What the record and the kernels of every backend share.
#pragma once

#include <array>
#include <limits>
#include <string_view>

#include "dlpipe/engine/core/op.h"
#include "dlpipe/engine/ops/clip.h"
#include "dlpipe/engine/ops/ops.h"

namespace dlpipe::engine {

/// What follows the convolution; relu is a clip at 0.
enum class ConvTail : uint8_t { kNone, kClip, kSilu };
constexpr std::array<std::string_view, 3> attr_names(ConvTail) {
  return {"none", "clip", "silu"};
}

struct ConvUnitAttrs {
  std::array<int, 2> stride = {1, 1};
  std::array<int, 2> padding = {0, 0};
  std::array<int, 2> dilation = {1, 1};
  int groups = 1;
  ConvTail tail = ConvTail::kNone;
  double low = -std::numeric_limits<double>::infinity();  // of kClip
  double high = std::numeric_limits<double>::infinity();

  static void each(auto& self, auto&& visit) {  // core/attr_form.h
    visit("stride", self.stride);
    visit("padding", self.padding);
    visit("dilation", self.dilation);
    visit("groups", self.groups);
    visit("tail", self.tail);
    visit("low", self.low);
    visit("high", self.high);
  }
  Conv2dAttrs conv2d() const { return {stride, padding, dilation, groups, Activation::kNone}; }
};

/// x [N,H,W,C], weight [O,C/groups,KH,KW], bias [O] or undefined, residual [N,OH,OW,O] or undefined. Has no gradient.
Tensor conv_unit(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& residual,
                 const ConvUnitAttrs& attrs);

/// The kernels of a backend that a conv_unit can be made of.
struct ConvUnitParts {
  const Kernels& conv2d;
  const Kernels& clip;
  const Kernels& silu;
  const Kernels& add;
};
/// The same one part after another, for backends and inputs without kernels of its own.
void run_in_parts(const ConvUnitParts& parts, const ForwardArgs& args);

}  // namespace dlpipe::engine
