// The formula of the op silu, shared by its record and its kernels on every backend.
#pragma once

#include "dlpipe/engine/ops/elementwise.h"
#include "dlpipe/engine/ops/vector_math.h"

namespace dlpipe::engine {

/// x sigmoid(x) (Elfwing, Uchibe and Doya, 2017).
struct SiluFormula {
  using Attrs = NoAttrs;
  static constexpr Saved kSaved = Saved::kInput;
  static constexpr bool kCostly = true;
  template <class T>
  static DLPIPE_FORMULA T forward(T x, const Attrs&) {
    return x / (T(1) + vector_math::exp(-x));
  }
  template <class T>
  static DLPIPE_FORMULA T backward(T grad, T x, const Attrs&) {
    const T s = T(1) / (T(1) + vector_math::exp(-x));
    return grad * (s + x * s * (T(1) - s));
  }
};

}  // namespace dlpipe::engine
