// The formula of the op sqrt, shared by its record and its kernels on every backend.
#pragma once

#include "dlpipe/engine/ops/elementwise.h"
#include "dlpipe/engine/ops/vector_math.h"

namespace dlpipe::engine {

/// Square root.
struct SqrtFormula {
  using Attrs = NoAttrs;
  static constexpr Saved kSaved = Saved::kOutput;
  template <class T>
  static DLPIPE_FORMULA T forward(T x, const Attrs&) {
    return vector_math::sqrt(x);
  }
  template <class T>
  static DLPIPE_FORMULA T backward(T grad, T y, const Attrs&) {
    return grad * T(0.5) / y;
  }
};

}  // namespace dlpipe::engine
