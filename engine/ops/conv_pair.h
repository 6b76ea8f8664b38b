// conv_pair: a 1x1 convolution and the depthwise one that alone reads it, each with its activation, in one op, so that what
// lies between never has to be written out. What the record and the kernels of every backend share.
#pragma once

#include "dlpipe/engine/ops/conv_unit.h"

namespace dlpipe::engine {

struct ConvPairAttrs {
  ConvTail inner_tail = ConvTail::kNone;  // between the two
  double inner_low = -std::numeric_limits<double>::infinity();
  double inner_high = std::numeric_limits<double>::infinity();
  std::array<int, 2> stride = {1, 1};  // of the depthwise one, as what follows
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
  /// Of `channels` channels.
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
