// The formula of the op maximum, shared by its record and its kernels on every backend.
#pragma once

#include "dlpipe/engine/ops/elementwise.h"

namespace dlpipe::engine {

/// The larger of the two; NaN where one is NaN. Equal ones share the gradient, as in PyTorch.
struct MaximumFormula {
  static constexpr bool kSaves = true;  // whether backward reads a and b
  template <class T>
  static DLPIPE_FORMULA T forward(T a, T b) {
    const T larger = a > b ? a : b;  // b where one is NaN
    return a == a ? larger : a;      // NOLINT(misc-redundant-expression): not so of NaN
  }
  template <class T>
  static DLPIPE_FORMULA T grad_a(T grad, T a, T b) {
    return a > b ? grad : a == b ? grad * T(0.5) : T(0);
  }
  template <class T>
  static DLPIPE_FORMULA T grad_b(T grad, T a, T b) {
    return a < b ? grad : a == b ? grad * T(0.5) : T(0);
  }
};

}  // namespace dlpipe::engine
