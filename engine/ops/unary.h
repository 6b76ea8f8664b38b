// Elementwise ops with one input: their formulas, which records and the kernels of every backend share, and what ops with a
// fused activation (linear, conv2d) use of them.
#pragma once

#include <limits>
#include <span>

#include "dlpipe/op.h"
#include "dlpipe/ops.h"
#include "engine/ops/elementwise.h"
#include "engine/ops/vector_math.h"

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

/// x Phi(x) with the exact normal distribution function (Hendrycks and Gimpel, "Gaussian Error Linear Units",
/// 2016).
struct GeluFormula {
  using Attrs = NoAttrs;
  static constexpr Saved kSaved = Saved::kInput;
  static constexpr bool kCostly = true;
  template <class T>
  static DLPIPE_FORMULA T forward(T x, const Attrs&) {
    return x * vector_math::normal(x).cdf;
  }
  template <class T>
  static DLPIPE_FORMULA T backward(T grad, T x, const Attrs&) {
    const vector_math::Normal<T> normal = vector_math::normal(x);
    return grad * (normal.cdf + x * (T(0.39894228040143268) * normal.exponential));  // 1 / sqrt(2 pi)
  }
};

/// x sigmoid(x) (Elfwing, Uchibe and Doya, 2017).
struct SiluFormula {
  using Attrs = NoAttrs;
  static constexpr Saved kSaved = Saved::kInput;
  static constexpr bool kCostly = true;
  template <class T>
  static DLPIPE_FORMULA T forward(T x, const Attrs&) {
    return x / (T(1) + vector_math::exp(-x));
  }
  template <class T>
  static DLPIPE_FORMULA T backward(T grad, T x, const Attrs&) {
    const T s = T(1) / (T(1) + vector_math::exp(-x));
    return grad * (s + x * s * (T(1) - s));
  }
};

/// 1 / (1 + e^-x).
struct SigmoidFormula {
  using Attrs = NoAttrs;
  static constexpr Saved kSaved = Saved::kOutput;
  static constexpr bool kCostly = true;
  template <class T>
  static DLPIPE_FORMULA T forward(T x, const Attrs&) {
    return T(1) / (T(1) + vector_math::exp(-x));
  }
  template <class T>
  static DLPIPE_FORMULA T backward(T grad, T y, const Attrs&) {
    return grad * y * (T(1) - y);
  }
};

/// Hyperbolic tangent.
struct TanhFormula {
  using Attrs = NoAttrs;
  static constexpr Saved kSaved = Saved::kOutput;
  static constexpr bool kCostly = true;
  template <class T>
  static DLPIPE_FORMULA T forward(T x, const Attrs&) {
    return vector_math::tanh(x);
  }
  template <class T>
  static DLPIPE_FORMULA T backward(T grad, T y, const Attrs&) {
    return grad * (T(1) - y * y);
  }
};

/// 2 / sqrt(pi) times the integral of e^(-t^2) from 0 to x, by the normal distribution: erf(x) = 2 Phi(sqrt(2) x) - 1.
struct ErfFormula {
  using Attrs = NoAttrs;
  static constexpr Saved kSaved = Saved::kInput;
  static constexpr bool kCostly = true;
  template <class T>
  static DLPIPE_FORMULA T forward(T x, const Attrs&) {
    return T(2) * vector_math::normal(T(1.4142135623730951) * x).cdf - T(1);
  }
  template <class T>
  static DLPIPE_FORMULA T backward(T grad, T x, const Attrs&) {
    return grad * (T(1.1283791670955126) * vector_math::exp(-x * x));  // 2 / sqrt(pi)
  }
};

/// e^x.
struct ExpFormula {
  using Attrs = NoAttrs;
  static constexpr Saved kSaved = Saved::kOutput;
  static constexpr bool kCostly = true;
  template <class T>
  static DLPIPE_FORMULA T forward(T x, const Attrs&) {
    return vector_math::exp(x);
  }
  template <class T>
  static DLPIPE_FORMULA T backward(T grad, T y, const Attrs&) {
    return grad * y;
  }
};

/// Natural logarithm.
struct LogFormula {
  using Attrs = NoAttrs;
  static constexpr Saved kSaved = Saved::kInput;
  static constexpr bool kCostly = true;
  template <class T>
  static DLPIPE_FORMULA T forward(T x, const Attrs&) {
    return vector_math::log(x);
  }
  template <class T>
  static DLPIPE_FORMULA T backward(T grad, T x, const Attrs&) {
    return grad / x;
  }
};

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

/// The sine of x radians; NaN if |x| is above 3.3e9, where floats are 256 apart.
struct SinFormula {
  using Attrs = NoAttrs;
  static constexpr Saved kSaved = Saved::kInput;
  static constexpr bool kCostly = true;
  template <class T>
  static DLPIPE_FORMULA T forward(T x, const Attrs&) {
    return vector_math::sin(x);
  }
  template <class T>
  static DLPIPE_FORMULA T backward(T grad, T x, const Attrs&) {
    return grad * vector_math::cos(x);
  }
};

/// Elementwise.
Tensor sin(const Tensor& x);

/// The cosine of x radians; NaN if |x| is above 3.3e9, where floats are 256 apart.
struct CosFormula {
  using Attrs = NoAttrs;
  static constexpr Saved kSaved = Saved::kInput;
  static constexpr bool kCostly = true;
  template <class T>
  static DLPIPE_FORMULA T forward(T x, const Attrs&) {
    return vector_math::cos(x);
  }
  template <class T>
  static DLPIPE_FORMULA T backward(T grad, T x, const Attrs&) {
    return -(grad * vector_math::sin(x));
  }
};

/// Elementwise.
Tensor cos(const Tensor& x);

struct ClipAttrs {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();

  static void each(auto& self, auto&& visit) {  // core/attr_form.h
    visit("low", self.low);
    visit("high", self.high);
  }
};

/// min(max(x, low), high); the gradient at the bounds is 0, like relu's at 0. NaN stays NaN.
struct ClipFormula {
  using Attrs = ClipAttrs;
  static constexpr Saved kSaved = Saved::kInput;
  template <class T>
  static DLPIPE_FORMULA T forward(T x, const Attrs& attrs) {
    const T above = x < T(attrs.low) ? T(attrs.low) : x;
    return above > T(attrs.high) ? T(attrs.high) : above;
  }
  template <class T>
  static DLPIPE_FORMULA T backward(T grad, T x, const Attrs& attrs) {
    const T above = x > T(attrs.low) ? grad : T(0);
    return x < T(attrs.high) ? above : T(0);
  }
};

struct ScaleAttrs {
  double factor = 1.0;
  double offset = 0.0;

  static void each(auto& self, auto&& visit) {  // core/attr_form.h
    visit("factor", self.factor);
    visit("offset", self.offset);
  }
};

/// x * factor + offset.
struct ScaleFormula {
  using Attrs = ScaleAttrs;
  static constexpr Saved kSaved = Saved::kNothing;
  template <class T>
  static DLPIPE_FORMULA T forward(T x, const Attrs& attrs) {
    return x * T(attrs.factor) + T(attrs.offset);
  }
  template <class T>
  static DLPIPE_FORMULA T backward(T grad, T, const Attrs& attrs) {
    return grad * T(attrs.factor);
  }
};

// Activations after products.

extern const OpRecord relu_op;
extern const OpRecord gelu_op;

/// The record of relu or gelu; null for kNone.
template <class T>
const T* of_activation(Activation activation, const T& relu, const T& gelu) {
  if (activation == Activation::kNone) return nullptr;
  return activation == Activation::kRelu ? &relu : &gelu;
}

/// For OpRecord::fused.
template <class OpAttrs>
const OpRecord* fused_op(const Attrs& attrs) {
  return of_activation(attrs.as<OpAttrs>().activation, relu_op, gelu_op);
}

/// Calls use(formula) with the activation's formula; does nothing for kNone.
template <class Use>
void with_formula(Activation activation, const Use& use) {
  if (activation == Activation::kRelu) use(ReluFormula());
  if (activation == Activation::kGelu) use(GeluFormula());
}

/// Where a kernel writes the product: gelu's backward needs it, so it is a hidden output; relu's doesn't, so relu
/// works in place.
inline const Tensor& product_of(std::span<const Tensor> outputs) {
  return outputs.back();
}

}  // namespace dlpipe::engine
