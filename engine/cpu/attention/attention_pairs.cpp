#include "dlpipe/engine/cpu/attention/attention_pairs.h"

#include <algorithm>
#include <cmath>

#include "dlpipe/engine/core/isa.h"
#include "dlpipe/engine/core/parallel.h"
#include "dlpipe/engine/cpu/gemm/pair_product.h"
#include "dlpipe/engine/cpu/loops/elementwise.h"
#include "dlpipe/engine/cpu/loops/rows.h"
#include "dlpipe/engine/ops/vector_math.h"

namespace dlpipe::engine::cpu {

namespace {

constexpr int64_t kPairQueries = 48;  // a block's rows
constexpr int64_t kLongest = 1024;    // whose scores take 192 KiB
constexpr int kPairsSlot = 1;         // of worker_scratch

/// The softmax of scale times the first `seen` scores, in bf16, zeros up to `terms`; the logarithm of its sum of exponentials.
float soften_to_pairs(float* scores, float scale, int64_t seen, int64_t terms, BFloat16* weights) {
  float log_sum = 0.0f;
  on_best_isa([=, &log_sum]() DLPIPE_INLINE {
    const float largest = largest_of(scores, seen);
    for (int64_t k = 0; k < seen; ++k) scores[k] = vector_math::exp(scale * (scores[k] - largest));
    const float sum = sum_terms(seen, [=](int64_t k) DLPIPE_INLINE { return scores[k]; });
    const float inverse = 1.0f / sum;
    for (int64_t k = 0; k < seen; ++k) store_one(weights + k, scores[k] * inverse);
    for (int64_t k = seen; k < terms; ++k) weights[k] = BFloat16();
    log_sum = scale * largest + std::log(sum);
  });
  return log_sum;
}

}  // namespace

bool attention_pairs_fit(const AttentionShape& shape) {
  return has_pair_products() && shape.width % 2 == 0 && shape.length <= kLongest;
}

void attention_pairs(const AttentionShape& s, const AttentionHead& head, bool causal, int64_t first,
                     int64_t last) {
  const int64_t reach = causal ? last : s.length;  // keys that any query sees
  const PairPanels keys{s.width, reach}, values{reach, s.width};
  const int64_t scores_row = keys.padded_columns(), weights_row = values.even_terms();
  const int64_t floats = kPairQueries * scores_row;
  const int64_t lows = kPairQueries * weights_row + keys.size() + values.size();
  auto* const scores =
      reinterpret_cast<float*>(worker_scratch(kPairsSlot, static_cast<size_t>(floats) * sizeof(float) +
                                                              static_cast<size_t>(lows) * sizeof(BFloat16)));
  auto* const packed_keys = reinterpret_cast<BFloat16*>(scores + floats);
  BFloat16* const packed_values = packed_keys + keys.size();
  BFloat16* const weights = packed_values + values.size();
  pack_turned_pairs(head.keys, s.qkv_row(), keys, packed_keys);
  pack_pairs(head.values, s.qkv_row(), values, packed_values);
  for (int64_t query = first; query < last; query += kPairQueries) {
    const int64_t queries = std::min(kPairQueries, last - query);
    const int64_t end = causal ? query + queries : s.length;
    const int64_t terms = (end + 1) / 2 * 2;
    pair_product({.a = head.queries + query * s.qkv_row(),
                  .a_row = s.qkv_row(),
                  .rows = queries,
                  .terms = s.width,
                  .b = packed_keys,
                  .panels = keys,
                  .columns = end,
                  .wide = scores,
                  .y_row = scores_row});
    for (int64_t r = 0; r < queries; ++r) {
      head.log_sums[query + r] =
          soften_to_pairs(scores + r * scores_row, static_cast<float>(s.scale),
                          causal ? query + r + 1 : s.length, terms, weights + r * weights_row);
    }
    pair_product({.a = weights,
                  .a_row = weights_row,
                  .rows = queries,
                  .terms = terms,
                  .b = packed_values,
                  .panels = values,
                  .columns = s.width,
                  .y = head.out + query * s.out_row(),
                  .y_row = s.out_row()});
  }
}

}  // namespace dlpipe::engine::cpu
