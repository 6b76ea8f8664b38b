// The formula of the op div, shared by its record and its kernels on every backend.
#pragma once

#include "dlpipe/engine/ops/elementwise.h"

namespace dlpipe::engine {

/// a / b.
struct DivFormula {
  static constexpr bool kSaves = true;  // whether backward reads a and b
  template <class T>
  static DLPIPE_FORMULA T forward(T a, T b) {
    return a / b;
  }
  template <class T>
  static DLPIPE_FORMULA T grad_a(T grad, T, T b) {
    return grad / b;
  }
  template <class T>
  static DLPIPE_FORMULA T grad_b(T grad, T a, T b) {
    return -grad * (a / b / b);  // b * b would leave the range where the quotient is in it
  }
};

}  // namespace dlpipe::engine
