// Shared parts of elementwise ops: how a formula is written, and their shape rules and samples.
//
// A formula is one struct, compiled for each backend (formula.h of each holds the loops). T is float or
// double; bf16 is computed in float.
//
//   struct ReluFormula {                                     // ops/unary.h
//     using Attrs = NoAttrs;
//     static constexpr Saved kSaved = Saved::kOutput;        // what backward reads besides the gradient
//     template <class T>
//     static DLPIPE_FORMULA T forward(T x, const Attrs&) { return x < T(0) ? T(0) : x; }  // NaN stays NaN
//     template <class T>
//     static DLPIPE_FORMULA T backward(T grad, T y, const Attrs&) { return y > T(0) ? grad : T(0); }
//   };
//
// A formula with tens of operations sets `static constexpr bool kCostly = true;` (ops/unary.h).
//
// Formulas are free of branches and calls that the compiler cannot turn into vectors; ops/vector_math.h has
// exp, log, tanh and erf in that form.
#pragma once

#include <algorithm>
#include <concepts>
#include <string_view>
#include <type_traits>

#include "dlpipe/op.h"
#include "engine/core/attr_form.h"

// Inlined into the loop that uses it, so that it is compiled for that loop's instruction set.
#if defined(__CUDACC__)
#define DLPIPE_FORMULA __host__ __device__ inline
#else
#define DLPIPE_FORMULA __attribute__((always_inline)) inline
#endif

namespace dlpipe::engine {

/// What backward of a unary formula reads.
enum class Saved : uint8_t { kNothing, kInput, kOutput };

/// A formula with one input, for numbers of type T, as in the example above.
template <class F, class T>
concept UnaryFormulaOf = requires(T x, const typename F::Attrs& attrs) {
  { F::kSaved } -> std::convertible_to<Saved>;
  { F::forward(x, attrs) } -> std::same_as<T>;
  { F::backward(x, x, attrs) } -> std::same_as<T>;
};
template <class F>
concept UnaryFormula = UnaryFormulaOf<F, float> && UnaryFormulaOf<F, double>;

/// A formula with tens of operations and without attributes: bf16 kernels may tabulate it.
template <class F>
concept CostlyFormula = F::kCostly && std::is_same_v<typename F::Attrs, NoAttrs>;

/// A formula with two inputs: forward(a, b), grad_a(grad, a, b), grad_b(grad, a, b), and kSaves, whether the
/// gradients read a and b (ops/binary.h).
template <class F>
concept BinaryFormula = requires {
  F::kSaves;
};

inline constexpr uint32_t kAllLayouts = bit(static_cast<int>(Layout::kPlain)) |
                                        bit(static_cast<int>(Layout::kBlocked8)) |
                                        bit(static_cast<int>(Layout::kBlocked16));

/// One floating input, and one output with the same spec.
std::vector<TensorSpec> unary_rule(std::string_view op, std::span<const TensorSpec> inputs);
/// Two inputs of one floating dtype; the output has their broadcast shape (numpy's rule).
std::vector<TensorSpec> binary_rule(std::string_view op, std::span<const TensorSpec> inputs);
/// The shape that `a` and `b` broadcast to. Throws Error "[op] ..." if they don't.
Shape broadcast_shape(std::string_view op, const Shape& a, const Shape& b);

/// Samples of a unary op with values in [low, high): vectors with tails, an image, one element, none.
std::vector<OpSample> unary_samples(double low, double high, const Attrs& attrs = NoAttrs{});
/// Samples of a binary op: equal shapes, a bias, a scalar, both sides broadcast.
std::vector<OpSample> binary_samples(double low, double high);
/// Samples of a binary op with realistic sizes, for benchmarks: operands broadcast in each way.
std::vector<OpSample> binary_bench_samples();

/// An op's name as a template argument.
template <size_t kSize>
struct OpName {
  char text[kSize] = {};
  consteval OpName(const char (&name)[kSize]) { std::copy_n(name, kSize, text); }  // NOLINT: implicit
};

/// The record of the elementwise op `kName`, whose formula is F: see ops/unary.cpp.
template <class F, OpName kName>
constexpr OpRecord elementwise_record(std::vector<OpSample> (*samples)()) {
  OpRecord record{};
  record.name = kName.text;
  record.layouts = kAllLayouts;
  record.samples = samples;
  if constexpr (BinaryFormula<F>) {
    record.input_count = {2, 2};
    record.infer = [](auto inputs, auto, const Attrs&) { return binary_rule(kName.text, inputs); };
    record.bench = binary_bench_samples;
    record.save_inputs = F::kSaves ? bit(0) | bit(1) : 0;
    record.image_inputs = bit(0) | bit(1);
    record.batch_inputs = bit(0) | bit(1);
  } else {
    static_assert(UnaryFormula<F>);
    if constexpr (ListedAttrs<typename F::Attrs>) record.attr_form = &attr_form<typename F::Attrs>;
    record.infer = [](auto inputs, auto, const Attrs&) { return unary_rule(kName.text, inputs); };
    record.batch_inputs = bit(0);
    record.save_inputs = F::kSaved == Saved::kInput ? bit(0) : 0;
    record.save_outputs = F::kSaved == Saved::kOutput ? bit(0) : 0;
  }
  return record;
}

}  // namespace dlpipe::engine
