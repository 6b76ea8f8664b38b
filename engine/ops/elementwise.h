// What the elementwise ops share: how a formula is written, and their shape rules and samples.
//
// A formula is one struct, compiled for each backend (reference/elementwise.h and cpu/loops/elementwise.h
// hold the loops). T is float or double; bf16 is computed in float.
//
//   struct ReluFormula {                                     // ops/relu.h
//     using Attrs = NoAttrs;
//     static constexpr Saved kSaved = Saved::kOutput;        // what backward is given beside the gradient
//     template <class T>
//     static DLPIPE_FORMULA T forward(T x, const Attrs&) { return x > T(0) ? x : T(0); }
//     template <class T>
//     static DLPIPE_FORMULA T backward(T grad, T y, const Attrs&) { return y > T(0) ? grad : T(0); }
//   };
//
// Formulas are free of branches and calls that the compiler cannot turn into vectors; ops/vector_math.h has
// exp, log, tanh and erf in that form.
#pragma once

#include <string_view>

#include "dlpipe/engine/core/op.h"

// Inlined into the loop that uses it, so that it is compiled for that loop's instruction set.
#if defined(__CUDACC__)
#define DLPIPE_FORMULA __host__ __device__ inline
#else
#define DLPIPE_FORMULA __attribute__((always_inline)) inline
#endif

namespace dlpipe::engine {

/// What backward of a unary formula reads.
enum class Saved : uint8_t { kNothing, kInput, kOutput };

inline constexpr uint32_t kAllLayouts = bit(static_cast<int>(Layout::kPlain)) |
                                        bit(static_cast<int>(Layout::kBlocked8)) |
                                        bit(static_cast<int>(Layout::kBlocked16));

/// One floating input, one output like it.
std::vector<TensorSpec> unary_rule(std::string_view op, std::span<const TensorSpec> inputs);
/// Two inputs of one floating dtype; the output has their broadcast shape (numpy's rule).
std::vector<TensorSpec> binary_rule(std::string_view op, std::span<const TensorSpec> inputs);
/// The shape that `a` and `b` broadcast to. Error "[op] ..." where they don't.
Shape broadcast_shape(std::string_view op, const Shape& a, const Shape& b);

/// Samples of a unary op with values in [low, high): vectors with tails, an image, one element, none.
std::vector<OpSample> unary_samples(double low, double high, const Attrs& attrs = NoAttrs{});
/// Samples of a binary op: equal shapes, a bias, a scalar, both sides stretched.
std::vector<OpSample> binary_samples(double low, double high);

}  // namespace dlpipe::engine
