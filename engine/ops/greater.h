// The formula of the op greater, shared by its record and its kernels on every backend.
#pragma once

#include "dlpipe/engine/ops/elementwise.h"

namespace dlpipe::engine {

/// 1 where a > b, else 0; no gradient.
struct GreaterFormula {
  static constexpr bool kSaves = false;  // whether backward reads a and b
  template <class T>
  static DLPIPE_FORMULA T forward(T a, T b) {
    return a > b ? T(1) : T(0);
  }
  template <class T>
  static DLPIPE_FORMULA T grad_a(T, T, T) {
    return T(0);
  }
  template <class T>
  static DLPIPE_FORMULA T grad_b(T, T, T) {
    return T(0);
  }
};

}  // namespace dlpipe::engine
