// The formula and attributes of the op scale, shared by its record and its kernels on every backend.
#pragma once

#include "dlpipe/engine/ops/elementwise.h"

namespace dlpipe::engine {

struct ScaleAttrs {
  double factor = 1.0;
  double offset = 0.0;

  static void each(auto& self, auto&& visit) {  // core/attr_form.h
    visit("factor", self.factor);
    visit("offset", self.offset);
  }
};

/// x * factor + offset.
struct ScaleFormula {
  using Attrs = ScaleAttrs;
  static constexpr Saved kSaved = Saved::kNothing;
  template <class T>
  static DLPIPE_FORMULA T forward(T x, const Attrs& attrs) {
    return x * T(attrs.factor) + T(attrs.offset);
  }
  template <class T>
  static DLPIPE_FORMULA T backward(T grad, T, const Attrs& attrs) {
    return grad * T(attrs.factor);
  }
};

}  // namespace dlpipe::engine
