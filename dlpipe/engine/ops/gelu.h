// The formula of the op gelu, shared by its record and its kernels on every backend.
#pragma once

#include "dlpipe/engine/ops/elementwise.h"
#include "dlpipe/engine/ops/vector_math.h"

namespace dlpipe::engine {

/// x Phi(x) with the exact normal distribution function (Hendrycks and Gimpel, "Gaussian Error Linear Units",
/// 2016).
struct GeluFormula {
  using Attrs = NoAttrs;
  static constexpr Saved kSaved = Saved::kInput;
  template <class T>
  static DLPIPE_FORMULA T forward(T x, const Attrs&) {
    return x * T(0.5) * (T(1) + vector_math::erf(x * T(0.70710678118654752)));  // x / sqrt(2)
  }
  template <class T>
  static DLPIPE_FORMULA T backward(T grad, T x, const Attrs&) {
    const T phi = T(0.5) * (T(1) + vector_math::erf(x * T(0.70710678118654752)));
    const T density = T(0.39894228040143268) * vector_math::exp(T(-0.5) * x * x);  // 1 / sqrt(2 pi)
    return grad * (phi + x * density);
  }
};

}  // namespace dlpipe::engine
