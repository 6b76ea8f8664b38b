// The formula of the op mul, shared by its record and its kernels on every backend.
#pragma once

#include "dlpipe/engine/ops/elementwise.h"

namespace dlpipe::engine {

/// a * b.
struct MulFormula {
  static constexpr bool kSaves = true;  // whether backward reads a and b
  template <class T>
  static DLPIPE_FORMULA T forward(T a, T b) {
    return a * b;
  }
  template <class T>
  static DLPIPE_FORMULA T grad_a(T grad, T, T b) {
    return grad * b;
  }
  template <class T>
  static DLPIPE_FORMULA T grad_b(T grad, T a, T) {
    return grad * a;
  }
};

}  // namespace dlpipe::engine
