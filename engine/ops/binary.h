// Elementwise ops with two inputs and broadcasting: their formulas, which records and the kernels of every backend
// share.
#pragma once

#include "engine/ops/elementwise.h"

namespace dlpipe::engine {

struct AddFormula {
  static constexpr bool kSaves = false;  // whether backward reads a and b
  template <class T>
  static DLPIPE_FORMULA T forward(T a, T b) {
    return a + b;
  }
  template <class T>
  static DLPIPE_FORMULA T grad_a(T grad, T, T) {
    return grad;
  }
  template <class T>
  static DLPIPE_FORMULA T grad_b(T grad, T, T) {
    return grad;
  }
};

/// max(a + b, 0): relu(add(a, b)) in one pass over memory, with the same bits.
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
    return -grad * (a / b / b);  // b * b may overflow when the quotient doesn't
  }
};

/// The larger of the two; NaN if either is NaN. Equal ones share the gradient, as in PyTorch.
struct MaximumFormula {
  static constexpr bool kSaves = true;  // whether backward reads a and b
  template <class T>
  static DLPIPE_FORMULA T forward(T a, T b) {
    const T larger = a > b ? a : b;  // b if either is NaN
    return a == a ? larger : a;      // NOLINT(misc-redundant-expression): false for NaN
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

/// The smaller of the two; NaN if either is NaN. Equal ones share the gradient, as in PyTorch.
struct MinimumFormula {
  static constexpr bool kSaves = true;  // whether backward reads a and b
  template <class T>
  static DLPIPE_FORMULA T forward(T a, T b) {
    const T smaller = a < b ? a : b;  // b if either is NaN
    return a == a ? smaller : a;      // NOLINT(misc-redundant-expression): false for NaN
  }
  template <class T>
  static DLPIPE_FORMULA T grad_a(T grad, T a, T b) {
    return a < b ? grad : a == b ? grad * T(0.5) : T(0);
  }
  template <class T>
  static DLPIPE_FORMULA T grad_b(T grad, T a, T b) {
    return a > b ? grad : a == b ? grad * T(0.5) : T(0);
  }
};

/// 1 if a > b, else 0; no gradient.
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

/// 1 if a == b, else 0; no gradient.
struct EqualFormula {
  static constexpr bool kSaves = false;  // whether backward reads a and b
  template <class T>
  static DLPIPE_FORMULA T forward(T a, T b) {
    return a == b ? T(1) : T(0);
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

/// a if b isn't 0, else 0, even if a is infinity or NaN. No gradient for b.
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
