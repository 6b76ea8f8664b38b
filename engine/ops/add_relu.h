// The formula of the op add_relu, shared by its record and its kernels on every backend.
#pragma once

#include "dlpipe/engine/ops/elementwise.h"

namespace dlpipe::engine {

/// max(a + b, 0), the bits of relu(add(a, b)) in one pass over memory.
struct AddReluFormula {
  static constexpr bool kSaves = true;
  template <class T>
  static DLPIPE_FORMULA T forward(T a, T b) {
    const T sum = a + b;
    return sum < T(0) ? T(0) : sum;  // in this order NaN stays NaN
  }
  template <class T>
  static DLPIPE_FORMULA T grad_a(T grad, T a, T b) {
    return a + b > T(0) ? grad : T(0);
  }
  template <class T>
  static DLPIPE_FORMULA T grad_b(T grad, T a, T b) {
    return a + b > T(0) ? grad : T(0);
  }
};

}  // namespace dlpipe::engine
