// The formula of the op sub, shared by its record and its kernels on every backend.
#pragma once

#include "dlpipe/engine/ops/elementwise.h"

namespace dlpipe::engine {

/// a - b.
struct SubFormula {
  static constexpr bool kSaves = false;  // whether backward reads a and b
  template <class T>
  static DLPIPE_FORMULA T forward(T a, T b) {
    return a - b;
  }
  template <class T>
  static DLPIPE_FORMULA T grad_a(T grad, T, T) {
    return grad;
  }
  template <class T>
  static DLPIPE_FORMULA T grad_b(T grad, T, T) {
    return -grad;
  }
};

}  // namespace dlpipe::engine
