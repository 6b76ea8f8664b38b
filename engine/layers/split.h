// Tensor parallelism: how ranks split a parameter, and the functions with which layers that have a part of their weights compute
// the results of whole layers. The tensors between such layers are whole on every rank, with the same bits.
//
// Shoeybi et al., "Megatron-LM: training multi-billion parameter language models using model parallelism", 2019, section 3:
// sum_gradient is its f, sum_over_ranks its g. All ranks of `ranks` call these functions; each waits for the others.
#pragma once

#include <cstdint>
#include <string>

#include "dlpipe/module.h"
#include "engine/collective/collective.h"

namespace dlpipe::engine {

/// A copy of this rank's part of f32 values.
Tensor own_part(const Tensor& whole, const Split& split, const Collective& ranks);
/// All ranks' parts, f32, joined to an axis of `size`, on every rank. Throws if another rank doesn't respond.
Tensor whole_of(const Tensor& part, const Split& split, int64_t size, Collective& ranks,
                const std::string& what);

// With gradients. x may be of any floating dtype; bf16 is summed and sent as bf16.

/// x itself; its gradient is the sum of all ranks' gradients.
Tensor sum_gradient(const Tensor& x, Collective& ranks);
/// The sum of all ranks' x; each rank's gradient is the gradient of the sum.
Tensor sum_over_ranks(const Tensor& x, Collective& ranks);
/// whole_of() along the last axis; the gradient is split again.
Tensor join_last_axis(const Tensor& part, int64_t size, Collective& ranks);

}  // namespace dlpipe::engine
