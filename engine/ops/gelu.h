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
  static constexpr bool kCostly = true;
  template <class T>
  static DLPIPE_FORMULA T forward(T x, const Attrs&) {
    return x * vector_math::normal(x).cdf;
  }
  template <class T>
  static DLPIPE_FORMULA T backward(T grad, T x, const Attrs&) {
    const vector_math::Normal<T> normal = vector_math::normal(x);
    return grad * (normal.cdf + x * (T(0.39894228040143268) * normal.exponential));  // 1 / sqrt(2 pi)
  }
};

}  // namespace dlpipe::engine
