// embedding and self_attention on the CPU.
#include "engine/ops/sequences.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "dlpipe/dtype.h"
#include "dlpipe/op.h"
#include "engine/core/isa.h"
#include "engine/core/parallel.h"
#include "engine/cpu/gemm/block_product.h"
#include "engine/cpu/gemm/pair_product.h"
#include "engine/cpu/loops/elementwise.h"
#include "engine/cpu/loops/rows.h"
#include "engine/cpu/loops/vec.h"
#include "engine/ops/vector_math.h"

namespace dlpipe::engine {

namespace {

void embedding_forward(const ForwardArgs& args) {
  const Tensor& table = args.inputs[0];
  const Tensor& ids = args.inputs[1];
  check_ids(ids, table.size(0));
  const size_t row_bytes = static_cast<size_t>(table.size(1)) * dtype_size(table.dtype());
  if (row_bytes == 0) return;
  const int64_t* id = ids.data<int64_t>();
  const auto* from = static_cast<const std::byte*>(table.raw());
  auto* to = static_cast<std::byte*>(args.outputs[0].raw());
  parallel_ranges(ids.elements(), std::max<int64_t>(1, 131072 / static_cast<int64_t>(row_bytes)),
                  [&](int64_t begin, int64_t end) {
                    for (int64_t i = begin; i < end; ++i) {
                      std::memcpy(to + static_cast<size_t>(i) * row_bytes,
                                  from + static_cast<size_t>(id[i]) * row_bytes, row_bytes);
                    }
                  });
}

// Gradients of repeated ids are added in the order of the ids, so a slice is a range of columns and reads all ids.
void embedding_backward(const BackwardArgs& args) {
  constexpr int64_t kColumns = 64;
  const Tensor& grad_table = args.grad_inputs[0];
  const Tensor& ids = args.inputs[1];
  const int64_t rows = grad_table.size(0);
  const int64_t width = grad_table.size(1);
  const int64_t count = ids.elements();
  const int64_t* id = ids.data<int64_t>();
  cpu::stored(grad_table.dtype(), [&]<class T>(T*) {
    const T* grad = static_cast<const T*>(args.grad_outputs[0].raw());
    // bf16 gradients are summed in f32.
    const Tensor sums = std::is_same_v<T, float> ? grad_table : Tensor::empty(grad_table.shape());
    float* sum = sums.data<float>();
    T* to = static_cast<T*>(grad_table.raw());
    parallel_ranges(width, kColumns, [&](int64_t begin, int64_t end) {
      cpu::on_best_isa([=]() DLPIPE_INLINE {
        for (int64_t row = 0; row < rows; ++row) {
          for (int64_t c = begin; c < end; ++c) sum[row * width + c] = 0;
        }
        for (int64_t i = 0; i < count; ++i) {
          float* __restrict row = sum + id[i] * width;
          for (int64_t c = begin; c < end; ++c) row[c] += cpu::load_one(grad + i * width + c);
        }
        if (std::is_same_v<T, float>) return;
        for (int64_t row = 0; row < rows; ++row) {
          for (int64_t c = begin; c < end; ++c) cpu::store_one(to + row * width + c, sum[row * width + c]);
        }
      });
    });
  });
}

}  // namespace

extern const Kernels embedding_cpu;
const Kernels embedding_cpu = {
    .forward = embedding_forward,
    .backward = embedding_backward,
    .supports = cpu::supports_first_f32_bf16,
};

}  // namespace dlpipe::engine

namespace dlpipe::engine::cpu {

// The forward pass of self-attention in bf16 by dot products of pairs. Used if the CPU has them and the sequence is short
// enough for its scores to stay in a core's cache. Attention weights are rounded to bf16, as in PyTorch's CPU kernels.

namespace {

constexpr int64_t kPairQueries = 48;  // rows of a block
constexpr int64_t kLongest = 1024;    // a block's scores then need 192 KiB
constexpr int kPairsSlot = 1;         // of worker_scratch

/// The memory of one head of one sequence. Positions are qkv_row() elements apart in queries, keys and values, and out_row() in
/// out.
struct AttentionHead {
  const BFloat16* queries = nullptr;
  const BFloat16* keys = nullptr;
  const BFloat16* values = nullptr;
  BFloat16* out = nullptr;
  float* log_sums = nullptr;  // one per position
};

/// weights = softmax of scale * scores over the first `seen` scores, in bf16, with zeros up to `terms`. Returns the log of the
/// sum of exponentials.
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

bool attention_pairs_fit(const AttentionShape& shape) {
  return has_pair_products() && shape.width % 2 == 0 && shape.length <= kLongest;
}

/// Computes outputs and log-sums of positions [first, last).
void attention_pairs(const AttentionShape& s, const AttentionHead& head, bool causal, int64_t first,
                     int64_t last) {
  const int64_t reach = causal ? last : s.length;  // number of keys that any query sees
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

}  // namespace

}  // namespace dlpipe::engine::cpu

namespace dlpipe::engine {

// self_attention on the CPU: blocks of queries times blocks of keys with a running softmax, so that only
// one block of attention weights exists at a time (Dao, "FlashAttention-2", 2023, algorithms 1 and 2, in a
// core's caches instead of a GPU's). Slices are heads (forward: heads and runs of queries). Inside a slice
// everything runs in order, so bits don't depend on threads.

namespace {

constexpr int64_t kQueries = 48;  // rows of a block: a multiple of the rows that products compute together
constexpr int64_t kKeys = 128;    // columns of a block
constexpr int64_t kQueriesASlice = 480;
constexpr int kSlot = 1;  // of worker_scratch
constexpr float kUnseen = -INFINITY;

/// One head of one sequence: where its rows are in the tensors, and the sizes of its padded copies in scratch.
struct Head {
  Head(const AttentionShape& shape, int64_t index)
      : s(shape),
        qkv(index / s.heads * s.length * s.qkv_row() + index % s.heads * s.width),
        out(index / s.heads * s.length * s.out_row() + index % s.heads * s.width),
        sums(index * s.length),
        panel(cpu::block_product().panel),
        row(divide_up(s.width, panel) * panel),
        columns(divide_up(s.length, panel) * panel) {}

  const AttentionShape& s;
  int64_t qkv, out, sums;  // offsets of the first elements
  int64_t panel;
  int64_t row;      // floats per position in scratch
  int64_t columns;  // positions, padded to whole panels
};

/// Copies `count` positions of `width` numbers, `from_row` apart, times `factor`, to rows of `row` floats, padded with
/// zeros.
template <class T>
void pack(const T* from, int64_t from_row, int64_t count, int64_t width, int64_t row, float factor,
          float* to) {
  for (int64_t t = 0; t < count; ++t, from += from_row, to += row) {
    cpu::on_best_isa([=]() DLPIPE_INLINE {
      for (int64_t d = 0; d < width; ++d) to[d] = factor * cpu::load_one(from + d);
      for (int64_t d = width; d < row; ++d) to[d] = 0.0f;
    });
  }
}

template <class T>
void unpack(const float* from, int64_t row, int64_t count, int64_t width, T* to, int64_t to_row) {
  for (int64_t t = 0; t < count; ++t, from += row, to += to_row) {
    cpu::on_best_isa([=]() DLPIPE_INLINE {
      for (int64_t d = 0; d < width; ++d) cpu::store_one(to + d, from[d]);
    });
  }
}

/// Transposes the rows of `count` positions panel by panel: element (d, t) is at to + t / panel * width *
/// panel + d * panel + t % panel, with zeros from `count` on. In a plain transposed matrix, rows a power of
/// two apart would share a few sets of the cache.
void turn(const float* from, int64_t row, int64_t count, int64_t width, int64_t panel, float* to) {
  for (int64_t t = 0; t < count; t += panel, to += width * panel) {
    const int64_t positions = std::min(panel, count - t);
    if (positions < panel) std::fill_n(to, width * panel, 0.0f);
    cpu::block_product().transpose(from + t * row, row, positions, width, to, panel);
  }
}

/// scores[r, k] = the product of row r of `left` and position first + k of `turned`, for `columns` positions in whole panels.
void multiply_turned(const float* left, int64_t left_row, int64_t rows, const float* turned, int64_t width,
                     int64_t first, int64_t columns, float* scores) {
  const cpu::BlockProduct& product = cpu::block_product();
  for (int64_t k = 0; k < columns; k += product.panel) {
    product.run({left, left_row, 1}, turned + (first + k) * width, product.panel, width, scores + k, kKeys,
                rows, product.panel, false);
  }
}

/// Hands out scratch piece by piece, each in whole cache lines.
class Pieces {
 public:
  explicit Pieces(float* base) : base_(base) {}
  float* take(int64_t floats) {
    float* const piece = base_ == nullptr ? nullptr : base_ + used_;
    used_ += divide_up(floats, 16) * 16;
    return piece;
  }
  int64_t used() const { return used_; }

 private:
  float* base_;
  int64_t used_ = 0;
};

/// Lays `Buffers` out in the calling worker's scratch.
template <class Buffers>
Buffers in_scratch(const Head& head) {
  Pieces measure(nullptr);
  Buffers sizes(head, measure);
  Pieces pieces(
      reinterpret_cast<float*>(worker_scratch(kSlot, static_cast<size_t>(measure.used()) * sizeof(float))));
  return Buffers(head, pieces);
}

/// A block of queries times a block of keys.
struct Block {
  int64_t query, queries, key, keys, columns;

  /// `end`: the first key that none of the block's queries sees.
  Block(const Head& head, int64_t first_query, int64_t first_key, int64_t end)
      : query(first_query),
        queries(std::min(kQueries, head.s.length - first_query)),
        key(first_key),
        keys(std::min(kKeys, end - first_key)),
        columns(divide_up(keys, head.panel) * head.panel) {}
  /// The number of the block's keys that query row `r` sees.
  int64_t seen(int64_t r, bool causal) const {
    return causal ? std::clamp<int64_t>(query + r + 1 - key, 0, keys) : keys;
  }
};

struct ForwardBuffers {
  ForwardBuffers(const Head& head, Pieces& pieces)
      : queries(pieces.take(kQueries * head.row)),
        keys(pieces.take(head.s.length * head.row)),
        values(pieces.take(head.s.length * head.row)),
        turned_keys(pieces.take(head.s.width * head.columns)),
        weights(pieces.take(kQueries * kKeys)),
        out(pieces.take(kQueries * head.row)),
        largest(pieces.take(kQueries)),
        sums(pieces.take(kQueries)) {}
  float *queries, *keys, *values, *turned_keys, *weights, *out, *largest, *sums;
};

/// Turns the block's scores into softmax weights relative to the largest score so far, and rescales `out` and `sums` to it.
void soften(const Block& block, bool causal, int64_t row, const ForwardBuffers& b) {
  for (int64_t r = 0; r < block.queries; ++r) {
    const int64_t seen = block.seen(r, causal);
    cpu::on_best_isa([=, weights = b.weights + r * kKeys, out = b.out + r * row,
                      largest_before = b.largest + r, sum = b.sums + r, keys = block.keys]() DLPIPE_INLINE {
      float most[8];
      for (float& lane : most) lane = *largest_before;
      int64_t i = 0;
      for (; i + 8 <= seen; i += 8) {
        for (int64_t lane = 0; lane < 8; ++lane)
          most[lane] = weights[i + lane] > most[lane] ? weights[i + lane] : most[lane];
      }
      for (; i < seen; ++i) most[0] = weights[i] > most[0] ? weights[i] : most[0];
      float largest = most[0];
      for (int64_t lane = 1; lane < 8; ++lane) largest = most[lane] > largest ? most[lane] : largest;
      if (seen == 0) largest = 0.0f;
      for (int64_t k = 0; k < seen; ++k) weights[k] = vector_math::exp(weights[k] - largest);
      for (int64_t k = seen; k < keys; ++k) weights[k] = 0.0f;
      if (seen == 0) return;
      float parts[8] = {};
      int64_t k = 0;
      for (; k + 8 <= seen; k += 8) {
        for (int64_t lane = 0; lane < 8; ++lane) parts[lane] += weights[k + lane];
      }
      for (; k < seen; ++k) parts[0] += weights[k];
      float added = 0.0f;
      for (const float part : parts) added += part;
      const float shrink = *largest_before == kUnseen ? 0.0f : vector_math::exp(*largest_before - largest);
      *sum = *sum * shrink + added;
      *largest_before = largest;
      for (int64_t d = 0; d < row; ++d) out[d] *= shrink;
    });
  }
}

template <class T>
void forward_slice(const Head& head, bool causal, int64_t first, int64_t last, const T* qkv, T* out,
                   float* log_sums) {
  const AttentionShape& s = head.s;
  const T* const base = qkv + head.qkv;
  if constexpr (std::is_same_v<T, BFloat16>) {
    if (cpu::attention_pairs_fit(s)) {
      return cpu::attention_pairs(
          s, {base, base + s.out_row(), base + 2 * s.out_row(), out + head.out, log_sums + head.sums}, causal,
          first, last);
    }
  }
  const cpu::BlockProduct& product = cpu::block_product();
  const auto b = in_scratch<ForwardBuffers>(head);
  const int64_t reach = causal ? last : s.length;  // number of keys that any query of the slice sees
  pack(base + s.out_row(), s.qkv_row(), reach, s.width, head.row, 1.0f, b.keys);
  pack(base + 2 * s.out_row(), s.qkv_row(), reach, s.width, head.row, 1.0f, b.values);
  turn(b.keys, head.row, reach, s.width, head.panel, b.turned_keys);
  for (int64_t query = first; query < last; query += kQueries) {
    const int64_t queries = std::min(kQueries, last - query);
    pack(base + query * s.qkv_row(), s.qkv_row(), queries, s.width, head.row, static_cast<float>(s.scale),
         b.queries);
    std::fill_n(b.out, kQueries * head.row, 0.0f);
    std::fill_n(b.largest, kQueries, kUnseen);
    std::fill_n(b.sums, kQueries, 0.0f);
    const int64_t end = causal ? query + queries : s.length;
    for (int64_t key = 0; key < end; key += kKeys) {
      const Block block(head, query, key, end);
      multiply_turned(b.queries, head.row, queries, b.turned_keys, s.width, key, block.columns, b.weights);
      soften(block, causal, head.row, b);
      product.run({b.weights, kKeys, 1}, b.values + key * head.row, head.row, block.keys, b.out, head.row,
                  queries, head.row, true);
    }
    for (int64_t r = 0; r < queries; ++r) {
      const float inverse = 1.0f / b.sums[r];
      for (int64_t d = 0; d < s.width; ++d) b.out[r * head.row + d] *= inverse;
      log_sums[head.sums + query + r] = b.largest[r] + std::log(b.sums[r]);
    }
    unpack(b.out, head.row, queries, s.width, out + head.out + query * s.out_row(), s.out_row());
  }
}

struct BackwardBuffers {
  BackwardBuffers(const Head& head, Pieces& pieces)
      : queries(pieces.take(head.s.length * head.row)),
        keys(pieces.take(head.s.length * head.row)),
        values(pieces.take(head.s.length * head.row)),
        grad_out(pieces.take(head.s.length * head.row)),
        grad_keys(pieces.take(head.s.length * head.row)),
        grad_values(pieces.take(head.s.length * head.row)),
        grad_queries(pieces.take(kQueries * head.row)),
        turned_keys(pieces.take(head.s.width * head.columns)),
        turned_values(pieces.take(head.s.width * head.columns)),
        weights(pieces.take(kQueries * kKeys)),
        grad_weights(pieces.take(kQueries * kKeys)),
        deltas(pieces.take(head.s.length)) {}
  float *queries, *keys, *values, *grad_out, *grad_keys, *grad_values, *grad_queries, *turned_keys,
      *turned_values, *weights, *grad_weights, *deltas;
};

/// Turns scores into softmax weights, and gradients of weights into gradients of scores.
void soften_backward(const Block& block, bool causal, const float* log_sums, const BackwardBuffers& b) {
  for (int64_t r = 0; r < block.queries; ++r) {
    const int64_t seen = block.seen(r, causal);
    cpu::on_best_isa([seen, keys = block.keys, weights = b.weights + r * kKeys,
                      grads = b.grad_weights + r * kKeys, log_sum = log_sums[r],
                      delta = b.deltas[block.query + r]]() DLPIPE_INLINE {
      for (int64_t k = 0; k < seen; ++k) {
        const float p = vector_math::exp(weights[k] - log_sum);
        weights[k] = p;
        grads[k] = p * (grads[k] - delta);
      }
      for (int64_t k = seen; k < keys; ++k) weights[k] = grads[k] = 0.0f;
    });
  }
}

// With P the softmax, O = P V: dV = P^T dO, dP = dO V^T, dS = P (dP - rowsum(dO O)), dQ = dS K, dK = dS^T Q;
// packed queries are scaled, so only dQ still needs the factor.
template <class T>
void backward_slice(const Head& head, bool causal, const T* qkv, const T* out, const T* grad,
                    const float* log_sums, T* grad_qkv) {
  const AttentionShape& s = head.s;
  const cpu::BlockProduct& product = cpu::block_product();
  const auto b = in_scratch<BackwardBuffers>(head);
  const T* const base = qkv + head.qkv;
  const auto scale = static_cast<float>(s.scale);
  pack(base, s.qkv_row(), s.length, s.width, head.row, scale, b.queries);
  pack(base + s.out_row(), s.qkv_row(), s.length, s.width, head.row, 1.0f, b.keys);
  pack(base + 2 * s.out_row(), s.qkv_row(), s.length, s.width, head.row, 1.0f, b.values);
  pack(grad + head.out, s.out_row(), s.length, s.width, head.row, 1.0f, b.grad_out);
  turn(b.keys, head.row, s.length, s.width, head.panel, b.turned_keys);
  turn(b.values, head.row, s.length, s.width, head.panel, b.turned_values);
  std::fill_n(b.grad_keys, s.length * head.row, 0.0f);
  std::fill_n(b.grad_values, s.length * head.row, 0.0f);
  for (int64_t t = 0; t < s.length; ++t) {
    float delta = 0.0f;
    for (int64_t d = 0; d < s.width; ++d)
      delta += b.grad_out[t * head.row + d] * cpu::load_one(out + head.out + t * s.out_row() + d);
    b.deltas[t] = delta;
  }
  for (int64_t query = 0; query < s.length; query += kQueries) {
    const int64_t queries = std::min(kQueries, s.length - query);
    std::fill_n(b.grad_queries, queries * head.row, 0.0f);
    const int64_t end = causal ? query + queries : s.length;
    for (int64_t key = 0; key < end; key += kKeys) {
      const Block block(head, query, key, end);
      const float* const q = b.queries + query * head.row;
      const float* const d_out = b.grad_out + query * head.row;
      multiply_turned(q, head.row, queries, b.turned_keys, s.width, key, block.columns, b.weights);
      multiply_turned(d_out, head.row, queries, b.turned_values, s.width, key, block.columns, b.grad_weights);
      soften_backward(block, causal, log_sums + head.sums + query, b);
      product.run({b.weights, 1, kKeys}, d_out, head.row, queries, b.grad_values + key * head.row, head.row,
                  block.keys, head.row, true);
      product.run({b.grad_weights, 1, kKeys}, q, head.row, queries, b.grad_keys + key * head.row, head.row,
                  block.keys, head.row, true);
      product.run({b.grad_weights, kKeys, 1}, b.keys + key * head.row, head.row, block.keys, b.grad_queries,
                  head.row, queries, head.row, true);
    }
    for (int64_t i = 0; i < queries * head.row; ++i) b.grad_queries[i] *= scale;
    unpack(b.grad_queries, head.row, queries, s.width, grad_qkv + head.qkv + query * s.qkv_row(),
           s.qkv_row());
  }
  unpack(b.grad_keys, head.row, s.length, s.width, grad_qkv + head.qkv + s.out_row(), s.qkv_row());
  unpack(b.grad_values, head.row, s.length, s.width, grad_qkv + head.qkv + 2 * s.out_row(), s.qkv_row());
}

void self_attention_forward(const ForwardArgs& args) {
  const auto& attrs = args.attrs.as<AttentionAttrs>();
  const AttentionShape s(args.inputs[0].shape(), attrs);
  if (args.outputs[0].elements() == 0) return;
  const int64_t runs = divide_up(s.length, kQueriesASlice);
  cpu::with_type(args.inputs[0].dtype(), [&](auto type) {
    using T = decltype(type);
    parallel_slices(s.batch * s.heads * runs, [&](int64_t slice) {
      const int64_t first = slice % runs * kQueriesASlice;
      forward_slice<T>(Head(s, slice / runs), attrs.causal, first, std::min(s.length, first + kQueriesASlice),
                       static_cast<const T*>(args.inputs[0].raw()), static_cast<T*>(args.outputs[0].raw()),
                       args.outputs[1].data<float>());
    });
  });
}

void self_attention_backward(const BackwardArgs& args) {
  const auto& attrs = args.attrs.as<AttentionAttrs>();
  const AttentionShape s(args.inputs[0].shape(), attrs);
  if (args.outputs[0].elements() == 0) return;
  cpu::with_type(args.inputs[0].dtype(), [&](auto type) {
    using T = decltype(type);
    parallel_slices(s.batch * s.heads, [&](int64_t slice) {
      backward_slice<T>(Head(s, slice), attrs.causal, static_cast<const T*>(args.inputs[0].raw()),
                        static_cast<const T*>(args.outputs[0].raw()),
                        static_cast<const T*>(args.grad_outputs[0].raw()), args.outputs[1].data<float>(),
                        static_cast<T*>(args.grad_inputs[0].raw()));
    });
  });
}

}  // namespace

extern const Kernels self_attention_cpu;
const Kernels self_attention_cpu = {
    .forward = self_attention_forward,
    .backward = self_attention_backward,
    .supports = cpu::supports_first_f32_bf16,
    .same_bits_on_every_isa = false,  // below AVX2 there are no fused multiply-adds
};

}  // namespace dlpipe::engine
