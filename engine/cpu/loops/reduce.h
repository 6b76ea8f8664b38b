// Sums over axes: f32 or bf16 in, f32 out, in an order that only the shape decides.
#pragma once

#include <cstdint>

#include "dlpipe/engine/core/tensor.h"

namespace dlpipe::engine::cpu {

/// to[kept axes] = factor * sum of `from` over the axes whose bit is set in `reduced`. `from` is plain and
/// contiguous; `to` is f32 or bf16, with as many elements as the kept axes have.
void reduce_sum(const Tensor& from, uint32_t reduced, double factor, const Tensor& to);

/// The axes of `shape` along which a tensor of shape `narrow` was stretched to it (numpy's rule), as bits.
uint32_t stretched_axes(const Shape& shape, const Shape& narrow);

}  // namespace dlpipe::engine::cpu
