// Weights in parts: how ranks cut a parameter among themselves, and the functions by which layers that have a part of their
// weights compute what whole ones would (tensor parallel). On every rank the tensors between such layers are whole, of the
// same bits.
//
// Shoeybi et al., "Megatron-LM: training multi-billion parameter language models using model parallelism", 2019, section 3:
// sum_gradient is its f, sum_over_ranks its g. All ranks of `ranks` call these functions alike; each waits for the others.
#pragma once

#include <cstdint>
#include <string>

#include "dlpipe/engine/collective/collective.h"
#include "dlpipe/engine/core/tensor.h"

namespace dlpipe::engine {

/// A cut across an axis: each rank has its Collective::part_of of it. An axis of several `blocks`, as queries, keys and values
/// one after another, is cut in each of them alike.
struct Split {
  int axis = 0;
  int64_t blocks = 1;
};

/// This rank's part of f32 values, a copy.
Tensor own_part(const Tensor& whole, const Split& split, const Collective& ranks);
/// All ranks' parts, f32, put together to an axis of `size`, on every rank. Throws where another one doesn't answer.
Tensor whole_of(const Tensor& part, const Split& split, int64_t size, Collective& ranks,
                const std::string& what);

// With gradients. x may be of any floating dtype; bf16 is summed and sent as bf16.

/// x itself; its gradient is the sum of all ranks' gradients.
Tensor sum_gradient(const Tensor& x, Collective& ranks);
/// The sum of all ranks' x, whose gradient each of them gets as it is.
Tensor sum_over_ranks(const Tensor& x, Collective& ranks);
/// whole_of the last axis; the gradient is cut again.
Tensor join_last_axis(const Tensor& part, int64_t size, Collective& ranks);

}  // namespace dlpipe::engine
