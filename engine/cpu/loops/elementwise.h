// The fast loops around an elementwise formula (ops/elementwise.h): f32 and bf16 (computed in f32), compiled for each
// instruction set, in parallel over fixed ranges. Blocked tensors are treated as flat arrays, because without broadcasting
// all tensors of a call have the same layout. The first part has helpers for all kernels of such tensors: functions for
// `supports`, and dispatch by element type.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "dlpipe/dtype.h"
#include "dlpipe/op.h"
#include "engine/core/isa.h"
#include "engine/core/parallel.h"
#include "engine/ops/elementwise.h"

namespace dlpipe::engine::cpu {

/// For elementwise ops, norms and reductions: whether all inputs are f32 or bf16.
inline bool supports_f32_bf16(std::span<const TensorSpec> inputs, const Attrs&) {
  return std::all_of(inputs.begin(), inputs.end(),
                     [](const TensorSpec& spec) { return is_f32_or_bf16(spec.dtype); });
}

/// For ops whose shape rule determines the other inputs' dtypes from the first.
inline bool supports_first_f32_bf16(std::span<const TensorSpec> inputs, const Attrs&) {
  return is_f32_or_bf16(inputs[0].dtype);
}

/// Calls work(BFloat16()) or work(float()), the storage type of `dtype`.
template <class Work>
void with_type(DType dtype, const Work& work) {
  dtype == DType::kBF16 ? work(BFloat16()) : work(float());
}

DLPIPE_FORMULA float load_one(const float* from) {
  return *from;
}
DLPIPE_FORMULA float load_one(const BFloat16* from) {
  return std::bit_cast<float>(static_cast<uint32_t>(from->bits) << 16);
}
DLPIPE_FORMULA void store_one(float* to, float value) {
  *to = value;
}
DLPIPE_FORMULA void store_one(BFloat16* to, float value) {
  auto u = std::bit_cast<uint32_t>(value);
  round_to_bf16(u, is_nan_f32(u));
  to->bits = static_cast<uint16_t>(u);
}

// A function of one bf16 has 65,536 values. A table look-up takes a quarter of the time of a formula with fifty operations
// and returns the same bits (docs/decisions/058-bf16-tables.md).

/// F's value for each bf16, indexed by its bits: 128 KiB, created at first use and kept.
template <CostlyFormula F>
const BFloat16* bf16_table() {
  static const std::vector<BFloat16> kTable = [] {
    std::vector<BFloat16> table(size_t{1} << 16);
    on_best_isa([to = table.data()]() DLPIPE_INLINE {
      for (uint32_t i = 0; i < (1u << 16); ++i) {
        BFloat16 x;
        x.bits = static_cast<uint16_t>(i);
        store_one(to + i, F::template forward<float>(load_one(&x), typename F::Attrs{}));
      }
    });
    return table;
  }();
  return kTable.data();
}

/// Elements per slice of an elementwise op: 64 K floats in and out nearly fit a second-level cache and take tens of
/// microseconds.
inline constexpr int64_t kElementwiseGrain = 65536;

/// Calls body(T*) with a null pointer of the storage type: float or BFloat16.
template <class Body>
void stored(DType dtype, const Body& body) {
  if (dtype == DType::kBF16) return body(static_cast<BFloat16*>(nullptr));
  body(static_cast<float*>(nullptr));
}

/// to[i] = the formula of from[i]. `from` and `to` may be the same memory. Runs on the calling thread.
template <UnaryFormula F, class T>
void formula_row(const T* from, T* to, int64_t count, const typename F::Attrs& attrs) {
  if constexpr (std::is_same_v<T, BFloat16> && CostlyFormula<F>) {
    const BFloat16* const table = bf16_table<F>();
    for (int64_t i = 0; i < count; ++i) to[i] = table[from[i].bits];
    return;
  }
  // Use one pointer if both are equal: the __restrict loop below is for memory that doesn't overlap.
  if (from == to) {
    on_best_isa([=]() DLPIPE_INLINE {
      for (int64_t i = 0; i < count; ++i)
        store_one(to + i, F::template forward<float>(load_one(to + i), attrs));
    });
    return;
  }
  const T* __restrict x = from;
  T* __restrict y = to;
  on_best_isa([=]() DLPIPE_INLINE {
    for (int64_t i = 0; i < count; ++i) store_one(y + i, F::template forward<float>(load_one(x + i), attrs));
  });
}

template <UnaryFormula F>
void unary_forward(const ForwardArgs& args) {
  const auto& attrs = args.attrs.as<typename F::Attrs>();
  stored(args.inputs[0].dtype(), [&]<class T>(T*) {
    const T* const x = static_cast<const T*>(args.inputs[0].raw());
    T* const y = static_cast<T*>(args.outputs[0].raw());
    parallel_ranges(args.inputs[0].elements(), kElementwiseGrain, [&](int64_t begin, int64_t end) {
      formula_row<F>(x + begin, y + begin, end - begin, attrs);
    });
  });
}

template <UnaryFormula F>
void unary_backward(const BackwardArgs& args) {
  const auto& attrs = args.attrs.as<typename F::Attrs>();
  stored(args.grad_inputs[0].dtype(), [&]<class T>(T*) {
    const T* __restrict grad = static_cast<const T*>(args.grad_outputs[0].raw());
    const T* __restrict saved = grad;
    if constexpr (F::kSaved == Saved::kInput) saved = static_cast<const T*>(args.inputs[0].raw());
    if constexpr (F::kSaved == Saved::kOutput) saved = static_cast<const T*>(args.outputs[0].raw());
    T* __restrict to = static_cast<T*>(args.grad_inputs[0].raw());
    parallel_ranges(args.grad_inputs[0].elements(), kElementwiseGrain, [&](int64_t begin, int64_t end) {
      on_best_isa([=]() DLPIPE_INLINE {
        for (int64_t i = begin; i < end; ++i) {
          store_one(to + i, F::template backward<float>(load_one(grad + i), load_one(saved + i), attrs));
        }
      });
    });
  });
}

template <UnaryFormula F>
constexpr Kernels unary_kernels() {
  return {unary_forward<F>, unary_backward<F>, supports_f32_bf16};
}

}  // namespace dlpipe::engine::cpu
