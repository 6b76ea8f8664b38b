// The formula of the op erf, shared by its record and its kernels on every backend.
#pragma once

#include "dlpipe/engine/ops/elementwise.h"
#include "dlpipe/engine/ops/vector_math.h"

namespace dlpipe::engine {

/// 2 / sqrt(pi) times the integral of e^(-t^2) from 0 to x, by the normal distribution: erf(x) = 2 Phi(sqrt(2) x) - 1.
struct ErfFormula {
  using Attrs = NoAttrs;
  static constexpr Saved kSaved = Saved::kInput;
  static constexpr bool kCostly = true;
  template <class T>
  static DLPIPE_FORMULA T forward(T x, const Attrs&) {
    return T(2) * vector_math::normal(T(1.4142135623730951) * x).cdf - T(1);
  }
  template <class T>
  static DLPIPE_FORMULA T backward(T grad, T x, const Attrs&) {
    return grad * (T(1.1283791670955126) * vector_math::exp(-x * x));  // 2 / sqrt(pi)
  }
};

}  // namespace dlpipe::engine
