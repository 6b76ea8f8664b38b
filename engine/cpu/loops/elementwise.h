// The fast loops around an elementwise formula (ops/elementwise.h): f32 and bf16 (computed in f32), compiled
// for each instruction set, in parallel over fixed ranges. A blocked tensor is a flat array here: all tensors
// of a call that is not broadcast have one layout.
#pragma once

#include <type_traits>

#include "dlpipe/engine/core/isa.h"
#include "dlpipe/engine/core/parallel.h"
#include "dlpipe/engine/cpu/loops/bf16_table.h"
#include "dlpipe/engine/cpu/loops/one_element.h"
#include "dlpipe/engine/cpu/loops/supports.h"  // IWYU pragma: export
#include "dlpipe/engine/ops/elementwise.h"

namespace dlpipe::engine::cpu {

/// Elements a slice of an elementwise op: 64 K floats in and out stay in the second-level cache's reach and
/// cost tens of microseconds.
inline constexpr int64_t kElementwiseGrain = 65536;

/// Calls body(T*) with a null pointer of the storage type: float or BFloat16.
template <class Body>
void stored(DType dtype, const Body& body) {
  if (dtype == DType::kBF16) return body(static_cast<BFloat16*>(nullptr));
  body(static_cast<float*>(nullptr));
}

/// to[i] = the formula of from[i], which may be the same memory; on the calling thread.
template <UnaryFormula F, class T>
void formula_row(const T* from, T* to, int64_t count, const typename F::Attrs& attrs) {
  if constexpr (std::is_same_v<T, BFloat16> && CostlyFormula<F>) {
    const BFloat16* const table = bf16_table<F>();
    for (int64_t i = 0; i < count; ++i) to[i] = table[from[i].bits];
    return;
  }
  // One pointer where both are the same: the compiler's vectors are for memory that doesn't overlap.
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
