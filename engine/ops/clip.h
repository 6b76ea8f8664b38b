// The formula and attributes of the op clip, shared by its record and its kernels on every backend.
#pragma once

#include <limits>

#include "dlpipe/engine/ops/elementwise.h"

namespace dlpipe::engine {

struct ClipAttrs {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();

  static void each(auto& self, auto&& visit) {  // core/attr_form.h
    visit("low", self.low);
    visit("high", self.high);
  }
};

/// min(max(x, low), high); the gradient at the bounds is 0, as relu's at 0. NaN stays NaN.
struct ClipFormula {
  using Attrs = ClipAttrs;
  static constexpr Saved kSaved = Saved::kInput;
  template <class T>
  static DLPIPE_FORMULA T forward(T x, const Attrs& attrs) {
    const T above = x < T(attrs.low) ? T(attrs.low) : x;
    return above > T(attrs.high) ? T(attrs.high) : above;
  }
  template <class T>
  static DLPIPE_FORMULA T backward(T grad, T x, const Attrs& attrs) {
    const T above = x > T(attrs.low) ? grad : T(0);
    return x < T(attrs.high) ? above : T(0);
  }
};

}  // namespace dlpipe::engine
