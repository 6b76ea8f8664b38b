// The activation after a product, on data still in the caches or, if the data is too large for that, on all
// cores. Internal to engine/cpu.
#pragma once

#include <cstdint>

#include "engine/ops/unary.h"

namespace dlpipe::engine {

extern const Kernels relu_cpu;
extern const Kernels gelu_cpu;

namespace cpu {

/// For Kernels::fused.
template <class OpAttrs>
const Kernels* fused_kernels(const Attrs& attrs) {
  return of_activation(attrs.as<OpAttrs>().activation, relu_cpu, gelu_cpu);
}

/// to = the activation of `from`, which may be the same memory: `rows` rows of `columns` elements (f32 or bf16); in both,
/// rows are `row` elements apart. Does nothing for kNone. Runs on the calling thread, with the bits of the op.
void activate_rows(Activation activation, DType dtype, const void* from, void* to, int64_t rows,
                   int64_t columns, int64_t row);

/// Activates all of a tensor in place, on the training pool. Does nothing for kNone.
void activate_in_place(Activation activation, const Tensor& tensor);

}  // namespace cpu
}  // namespace dlpipe::engine
