// Convolutions of compiled graphs for inference, fused with the ops after them. Shared by their records and the kernels of every
// backend.
#pragma once

#include <array>
#include <limits>
#include <string_view>

#include "dlpipe/op.h"
#include "dlpipe/ops.h"
#include "engine/ops/unary.h"

namespace dlpipe::engine {

// conv_unit: activation(conv2d(x)) + residual.

/// The activation after the convolution; relu is a clip at 0.
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
  double low = -std::numeric_limits<double>::infinity();  // for kClip
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

/// A backend's kernels that a conv_unit can be composed of.
struct ConvUnitParts {
  const Kernels& conv2d;
  const Kernels& clip;
  const Kernels& silu;
  const Kernels& add;
};
/// Runs a conv_unit as separate ops, for backends and inputs without a fused kernel.
void run_in_parts(const ConvUnitParts& parts, const ForwardArgs& args);

// conv_pair: a 1x1 convolution and the depthwise one that is its only reader, each with its activation, in one op, so that the
// value between them is never written to memory.

struct ConvPairAttrs {
  ConvTail inner_tail = ConvTail::kNone;  // between the two
  double inner_low = -std::numeric_limits<double>::infinity();
  double inner_high = std::numeric_limits<double>::infinity();
  std::array<int, 2> stride = {1, 1};  // of the depthwise one, like the fields below
  std::array<int, 2> padding = {0, 0};
  std::array<int, 2> dilation = {1, 1};
  ConvTail tail = ConvTail::kNone;
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();

  static void each(auto& self, auto&& visit) {  // core/attr_form.h
    visit("inner_tail", self.inner_tail);
    visit("inner_low", self.inner_low);
    visit("inner_high", self.inner_high);
    visit("stride", self.stride);
    visit("padding", self.padding);
    visit("dilation", self.dilation);
    visit("tail", self.tail);
    visit("low", self.low);
    visit("high", self.high);
  }
  ConvUnitAttrs inner() const { return {.tail = inner_tail, .low = inner_low, .high = inner_high}; }
  /// The attributes of the depthwise convolution with `channels` channels.
  ConvUnitAttrs outer(int64_t channels) const {
    return {stride, padding, dilation, static_cast<int>(channels), tail, low, high};
  }
};

/// x [N,H,W,C], inner weight [M,C,1,1], outer weight [M,1,KH,KW], inner and outer bias [M] or undefined -> [N,OH,OW,M]. Has no
/// gradient.
Tensor conv_pair(const Tensor& x, const Tensor& inner_weight, const Tensor& outer_weight,
                 const Tensor& inner_bias, const Tensor& outer_bias, const ConvPairAttrs& attrs);

/// The same as two calls of a backend's conv_unit.
void run_as_units(const Kernels& conv_unit, const ForwardArgs& args);

}  // namespace dlpipe::engine
