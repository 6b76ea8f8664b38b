// The formula of the op relu, shared by its record and its kernels on every backend.
#pragma once

#include "dlpipe/engine/ops/elementwise.h"

namespace dlpipe::engine {

/// max(x, 0); the gradient at 0 is 0.
struct ReluFormula {
  using Attrs = NoAttrs;
  static constexpr Saved kSaved = Saved::kOutput;
  template <class T>
  static DLPIPE_FORMULA T forward(T x, const Attrs&) {
    return x < T(0) ? T(0) : x;  // in this order NaN stays NaN
  }
  template <class T>
  static DLPIPE_FORMULA T backward(T grad, T y, const Attrs&) {
    return y > T(0) ? grad : T(0);
  }
};

}  // namespace dlpipe::engine
