// The formula of the op mask, shared by its record and its kernels on every backend.
#pragma once

#include "dlpipe/engine/ops/elementwise.h"

namespace dlpipe::engine {

/// a where b isn't 0, else 0, whatever a is there: infinity and NaN, too. No gradient to b.
struct MaskFormula {
  static constexpr bool kSaves = true;  // whether backward reads a and b
  template <class T>
  static DLPIPE_FORMULA T forward(T a, T b) {
    return b != T(0) ? a : T(0);
  }
  template <class T>
  static DLPIPE_FORMULA T grad_a(T grad, T, T b) {
    return b != T(0) ? grad : T(0);
  }
  template <class T>
  static DLPIPE_FORMULA T grad_b(T, T, T) {
    return T(0);
  }
};

}  // namespace dlpipe::engine
