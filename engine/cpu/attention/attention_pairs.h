// The forward pass of self-attention in bf16 by dot products of pairs, where the CPU has them and a sequence is short enough for
// its scores to stay in a core's cache. Weights are rounded to bf16, as PyTorch's kernels on the CPU do. Internal to engine/cpu.
#pragma once

#include <cstdint>

#include "dlpipe/base/dtype.h"
#include "dlpipe/engine/ops/attention.h"

namespace dlpipe::engine::cpu {

/// One head of one sequence, where its rows lie: queries, keys and values `qkv_row` elements apart, outputs `out_row`.
struct AttentionHead {
  const BFloat16* queries = nullptr;
  const BFloat16* keys = nullptr;
  const BFloat16* values = nullptr;
  BFloat16* out = nullptr;
  float* log_sums = nullptr;  // of positions
};

bool attention_pairs_fit(const AttentionShape& shape);
/// Outputs and log-sums of positions [first, last). Scratch of the calling worker: slot 1.
void attention_pairs(const AttentionShape& shape, const AttentionHead& head, bool causal, int64_t first,
                     int64_t last);

}  // namespace dlpipe::engine::cpu
