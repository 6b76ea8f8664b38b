#include "engine/ops/sequences.h"

#include "engine/cuda/cudnn/cudnn_attention.h"
#include "engine/cuda/grid/elements.h"
#include "engine/cuda/loops/sorted_ids.h"
#include "engine/cuda/loops/sums.h"
#include "engine/ops/vector_math.h"

namespace dlpipe::engine::cuda {
inline namespace DLPIPE_GRID_NAMESPACE {

constexpr int kAttentionThreads = 128;

/// The part of an AttentionShape that the kernels need.
struct AttentionHeads {
  int64_t heads, qkv_row, out_row;
  int length, width;
  float scale;
  bool causal;

  AttentionHeads(const AttentionShape& s, bool is_causal)
      : heads(s.heads),
        qkv_row(s.qkv_row()),
        out_row(s.out_row()),
        length(static_cast<int>(s.length)),
        width(static_cast<int>(s.width)),
        scale(static_cast<float>(s.scale)),
        causal(is_causal) {}

  /// The first elements of head `index`, counted over all sequences: of its queries (its keys and values
  /// follow, each out_row further), of its outputs and of its softmax sums.
  DLPIPE_DEVICE int64_t qkv(int64_t index) const {
    return index / heads * length * qkv_row + index % heads * width;
  }
  DLPIPE_DEVICE int64_t out(int64_t index) const {
    return index / heads * length * out_row + index % heads * width;
  }
  DLPIPE_DEVICE int64_t sums(int64_t index) const { return index * length; }
  DLPIPE_DEVICE bool sees(int query, int key) const {
    return query < length && key < length && (!causal || key <= query);
  }
};

/// kRows positions of kWidth numbers in shared memory. Threads that read the same column of different rows use different banks.
template <int kRows, int kWidth>
struct AttentionTile {
  float at[kRows][kWidth + 1];
};

/// Loads `count` positions from memory; zeros after them and after `width`. Part of a phase.
template <class T, int kRows, int kWidth>
DLPIPE_DEVICE void load_tile(int thread, const T* from, int64_t row, int count, int width,
                             AttentionTile<kRows, kWidth>& to) {
  for (int i = thread; i < kRows * kWidth; i += kAttentionThreads) {
    const int r = i / kWidth;
    const int d = i % kWidth;
    to.at[r][d] = r < count && d < width ? widened(from[r * row + d]) : 0.0f;
  }
}

/// A thread's part of the products of kRows rows with kOthers others: rows thread / 8 + 16 i and others thread % 8 + 8 j.
template <int kRows, int kOthers>
struct AttentionScores {
  static constexpr int kLanes = 8;
  static constexpr int kStep = kAttentionThreads / kLanes;
  static constexpr int kEachRows = kRows / kStep;
  static constexpr int kEachOthers = kOthers / kLanes;
  static_assert(kRows % kStep == 0 && kOthers % kLanes == 0);
  float at[kEachRows][kEachOthers] = {};

  DLPIPE_DEVICE static int row(int thread, int i) { return thread / kLanes + i * kStep; }
  DLPIPE_DEVICE static int other(int thread, int j) { return thread % kLanes + j * kLanes; }

  template <int kWidth>
  DLPIPE_DEVICE void multiply(int thread, const AttentionTile<kRows, kWidth>& rows,
                              const AttentionTile<kOthers, kWidth>& others, int width) {
    for (int d = 0; d < width; ++d) {
      float left[kEachRows];
      float right[kEachOthers];
      for (int i = 0; i < kEachRows; ++i) left[i] = rows.at[row(thread, i)][d];
      for (int j = 0; j < kEachOthers; ++j) right[j] = others.at[other(thread, j)][d];
      for (int i = 0; i < kEachRows; ++i) {
        for (int j = 0; j < kEachOthers; ++j) at[i][j] += left[i] * right[j];
      }
    }
  }
};

/// A thread's part of kRows sums of rows of kWidth: rows warp + kWarps i, columns lane + kWarp j.
template <int kRows, int kWidth>
struct AttentionSums {
  static constexpr int kWarps = kAttentionThreads / kWarp;
  static constexpr int kEachRows = kRows / kWarps;
  static constexpr int kEachColumns = kWidth / kWarp;
  float at[kEachRows][kEachColumns];

  DLPIPE_DEVICE void clear() {
    for (auto& row : at) {
      for (float& sum : row) sum = 0;
    }
  }
  /// Adds weights[row][k] * values[k] for each k.
  template <int kOthers>
  DLPIPE_DEVICE void add(int thread, const AttentionTile<kRows, kOthers>& weights,
                         const AttentionTile<kOthers, kWidth>& values) {
    for (int k = 0; k < kOthers; ++k) {
      float value[kEachColumns];
      for (int j = 0; j < kEachColumns; ++j) value[j] = values.at[k][thread % kWarp + j * kWarp];
      for (int i = 0; i < kEachRows; ++i) {
        const float weight = weights.at[thread / kWarp + i * kWarps][k];
        for (int j = 0; j < kEachColumns; ++j) at[i][j] += weight * value[j];
      }
    }
  }
  /// Multiplies each row by factors[row].
  DLPIPE_DEVICE void scale(int thread, const float* factors) {
    for (int i = 0; i < kEachRows; ++i) {
      for (int j = 0; j < kEachColumns; ++j) at[i][j] *= factors[thread / kWarp + i * kWarps];
    }
  }
  /// Stores the first `count` rows, times `factor`.
  template <class T>
  DLPIPE_DEVICE void store(int thread, float factor, int count, int width, T* to, int64_t to_row) const {
    for (int i = 0; i < kEachRows; ++i) {
      const int row = thread / kWarp + i * kWarps;
      for (int j = 0; j < kEachColumns; ++j) {
        const int d = thread % kWarp + j * kWarp;
        if (row < count && d < width) to[row * to_row + d] = narrowed<T>(at[i][j] * factor);
      }
    }
  }
};

}  // namespace DLPIPE_GRID_NAMESPACE
}  // namespace dlpipe::engine::cuda

namespace dlpipe::engine {
namespace {

/// An id that is not a row of the table gives zeros. A kernel can't throw; ids are checked where they enter.
template <class T, int kWidth>
struct EmbeddingRows {
  static constexpr const char* kName = "embedding";
  static constexpr int kThreads = 256;
  using Shared = cuda::NoShared;
  using Values = cuda::Pack<T, kWidth>;
  const T* table;
  const int64_t* ids;
  T* to;
  int64_t rows;
  int64_t width;
  int64_t packs;

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, Shared&) const {
    block.each([&](int thread) {
      const int64_t pack = block.index() * kThreads + thread;
      if (pack >= packs) return;
      const int64_t place = pack / (width / kWidth);
      const int64_t column = pack * kWidth - place * width;
      const int64_t id = ids[place];
      Values out = {};
      if (id >= 0 && id < rows) out = *reinterpret_cast<const Values*>(table + id * width + column);
      *reinterpret_cast<Values*>(to + pack * kWidth) = out;
    });
  }
};

constexpr int kSpan = 128;  // sorted ids per span; part of the definition of the sums

/// The f32 sums of a pack of columns.
template <class T, int kWidth>
struct ColumnSums {
  float at[kWidth] = {};

  DLPIPE_DEVICE void add(const T* from) {
    const auto values = *reinterpret_cast<const cuda::Pack<T, kWidth>*>(from);
    for (int k = 0; k < kWidth; ++k) at[k] += cuda::widened(values.at[k]);
  }
};

/// The sums of spans whose ids are all of one row, so that a row with most of the ids isn't one long sum.
template <class T, int kWidth>
struct SpanSums {
  static constexpr const char* kName = "sums of spans of a row";
  static constexpr int kThreads = 128;
  using Shared = cuda::NoShared;
  const T* grad;
  const cuda::IdAt* items;
  float* to;  // [spans, width]; other spans are not written
  int64_t width;
  int64_t packs;

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, Shared&) const {
    block.each([&](int thread) {
      const int64_t pack = block.index() * kThreads + thread;
      if (pack >= packs) return;
      const int64_t number = pack / (width / kWidth);
      const T* column = grad + (pack * kWidth - number * width);
      const cuda::IdAt* span = items + number * kSpan;
      if (span[0].id != span[kSpan - 1].id) return;
      ColumnSums<T, kWidth> sums;
      for (int k = 0; k < kSpan; ++k) sums.add(column + span[k].at * width);
      for (int k = 0; k < kWidth; ++k) to[pack * kWidth + k] = sums.at[k];
    });
  }
};

/// Each element of the table's gradient is the sum of the gradients of its row's ids: those before the row's
/// first whole span, the whole spans, then those after the last.
template <class T, int kWidth>
struct EmbeddingGradient {
  static constexpr const char* kName = "embedding gradient";
  static constexpr int kThreads = 256;
  using Shared = cuda::NoShared;
  const T* grad;
  const cuda::IdAt* items;
  const uint32_t* starts;
  const float* spans;
  T* to;
  int64_t width;
  int64_t packs;  // in the table

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, Shared&) const {
    block.each([&](int thread) {
      const int64_t pack = block.index() * kThreads + thread;
      if (pack >= packs) return;
      const int64_t row = pack / (width / kWidth);
      const int64_t column = pack * kWidth - row * width;
      const int64_t begin = starts[row], end = starts[row + 1];
      const int64_t first = (begin + kSpan - 1) / kSpan, last = end / kSpan;  // the row's whole spans
      const bool has_spans = first < last;
      ColumnSums<T, kWidth> sums;
      for (int64_t k = begin; k < (has_spans ? first * kSpan : end); ++k)
        sums.add(grad + items[k].at * width + column);
      for (int64_t span = first; span < last; ++span) {
        for (int k = 0; k < kWidth; ++k) sums.at[k] += spans[span * width + column + k];
      }
      for (int64_t k = last * kSpan; has_spans && k < end; ++k) sums.add(grad + items[k].at * width + column);
      cuda::Pack<T, kWidth> out;
      for (int k = 0; k < kWidth; ++k) out.at[k] = cuda::narrowed<T>(sums.at[k]);
      *reinterpret_cast<cuda::Pack<T, kWidth>*>(to + pack * kWidth) = out;
    });
  }
};

/// Calls body(T(), columns per thread) for rows of `table` and of `rows`; the columns per thread are a constant.
template <class Body>
void by_packs(const Tensor& table, const Tensor& rows, const Body& body) {
  cuda::stored(table.dtype(), [&](auto type) {
    constexpr int kWidth = cuda::kPackWidth<decltype(type)>;
    if (table.size(1) % kWidth == 0 && cuda::is_pack_aligned(table.raw()) &&
        cuda::is_pack_aligned(rows.raw()))
      return body(type, std::integral_constant<int, kWidth>());
    body(type, std::integral_constant<int, 1>());
  });
}

void embedding_forward(const ForwardArgs& args) {
  const Tensor& table = args.inputs[0];
  const Tensor& to = args.outputs[0];
  if (to.elements() == 0) return;
  by_packs(table, to, [&](auto type, auto width) {
    using T = decltype(type);
    using Kernel = EmbeddingRows<T, width()>;
    const int64_t packs = to.elements() / width();
    cuda::launch(Kernel{cuda::elements_of<T>(table), args.inputs[1].data<int64_t>(), cuda::elements_to<T>(to),
                        table.size(0), table.size(1), packs},
                 cuda::blocks_for(packs, Kernel::kThreads));
  });
}

void embedding_backward(const BackwardArgs& args) {
  const Tensor& to = args.grad_inputs[0];
  const Tensor& ids = args.inputs[1];
  const Tensor& grad_y = args.grad_outputs[0];
  if (to.elements() == 0) return;
  const int64_t rows = to.size(0), width = to.size(1);
  const cuda::SortedIds sorted = cuda::sort_ids(ids, rows);
  const int64_t spans = ids.elements() / kSpan;
  const Tensor sums = Tensor::empty({{spans, width}, DType::kF32}, to.device());
  by_packs(to, grad_y, [&](auto type, auto pack) {
    using T = decltype(type);
    using Spans = SpanSums<T, pack()>;
    using Rows = EmbeddingGradient<T, pack()>;
    const T* grad = cuda::elements_of<T>(grad_y);
    const int64_t span_packs = sums.elements() / pack(), packs = to.elements() / pack();
    cuda::launch(Spans{grad, sorted.items, sums.data<float>(), width, span_packs},
                 cuda::blocks_for(span_packs, Spans::kThreads));
    cuda::launch(
        Rows{grad, sorted.items, sorted.starts, sums.data<float>(), cuda::elements_to<T>(to), width, packs},
        cuda::blocks_for(packs, Rows::kThreads));
  });
}

bool supports_embedding(std::span<const TensorSpec> inputs, const Attrs& attrs) {
  return cuda::supports_stored(inputs.first(1), attrs);
}

}  // namespace

DLPIPE_CUDA_KERNELS(embedding) = {embedding_forward, embedding_backward, supports_embedding};

// self_attention on CUDA. If cuDNN is available and supports the problem (cudnn_attention.h), it computes it with
// tensor cores. Otherwise, and for f32, our own kernels do; tests also compare cuDNN with them. They multiply blocks
// of queries by blocks of keys with a running softmax, so that only one block of attention weights exists at a time
// (Dao, "FlashAttention-2", 2023, algorithms 1 and 2). There is one block of threads per block of queries (backward
// also: of keys) of one head of one sequence. It walks the other side in order, so there are no atomics.

namespace {

using cuda::AttentionHeads;
using cuda::AttentionScores;
using cuda::AttentionSums;
using cuda::AttentionTile;
using cuda::elements_of;
using cuda::elements_to;
using cuda::widened;

constexpr int kMostWidth = 128;

/// One block of threads per kRows queries.
template <class T, int kWidth>
struct Attention {
  static constexpr const char* kName = "self_attention";
  static constexpr int kThreads = cuda::kAttentionThreads;
  static constexpr int kRows = 32;
  static constexpr int kParts = kThreads / kRows;  // threads per query in the softmax
  struct Shared {
    AttentionTile<kRows, kWidth> queries;
    AttentionTile<kRows, kWidth> others;  // keys, then their values
    AttentionTile<kRows, kRows> weights;
    float part[kRows][kParts];  // largest scores; at the end sums of exponentials
    float factor[kRows];
  };
  /// A query's softmax so far; each of the query's threads has one.
  struct Softmax {
    float largest;
    float sum;  // of the thread's own exponentials
  };
  const T* qkv;
  T* out;
  float* log_sums;
  AttentionHeads h;

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, Shared& shared) const {
    const int64_t blocks = (h.length + kRows - 1) / kRows;
    const int64_t head = block.index() / blocks;
    const int first = static_cast<int>(block.index() % blocks) * kRows;
    const int count = h.length - first < kRows ? h.length - first : kRows;
    const int end = h.causal ? first + count : h.length;
    const T* queries = qkv + h.qkv(head);
    typename Block::template PerThread<AttentionSums<kRows, kWidth>> sums;
    typename Block::template PerThread<Softmax> softmax;
    block.each([&](int thread) {
      load_tile(thread, queries + first * h.qkv_row, h.qkv_row, count, h.width, shared.queries);
      sums[thread].clear();
      softmax[thread] = {-__builtin_inff(), 0.0f};
    });
    for (int key = 0; key < end; key += kRows) {
      const T* keys = queries + h.out_row + key * h.qkv_row;
      block.each(
          [&](int thread) { load_tile(thread, keys, h.qkv_row, h.length - key, h.width, shared.others); });
      block.each([&](int thread) {
        AttentionScores<kRows, kRows> scores;
        scores.multiply(thread, shared.queries, shared.others, h.width);
        for (int i = 0; i < scores.kEachRows; ++i) {
          for (int j = 0; j < scores.kEachOthers; ++j)
            shared.weights.at[scores.row(thread, i)][scores.other(thread, j)] = scores.at[i][j] * h.scale;
        }
      });
      block.each([&](int thread) {
        load_tile(thread, keys + h.out_row, h.qkv_row, h.length - key, h.width, shared.others);
        find_largest(thread, first, key, softmax[thread], shared);
      });
      block.each([&](int thread) { take_exponentials(thread, first, key, softmax[thread], shared); });
      block.each([&](int thread) {
        sums[thread].scale(thread, shared.factor);
        sums[thread].add(thread, shared.weights, shared.others);
      });
    }
    block.each([&](int thread) { shared.part[thread / kParts][thread % kParts] = softmax[thread].sum; });
    block.each([&](int thread) {
      if (thread % kParts != 0) return;
      const int q = thread / kParts;
      float sum = 0;
      for (int i = 0; i < kParts; ++i) sum += shared.part[q][i];
      shared.factor[q] = 1.0f / sum;
      if (q < count) log_sums[h.sums(head) + first + q] = softmax[thread].largest + vector_math::log(sum);
    });
    block.each([&](int thread) {
      sums[thread].scale(thread, shared.factor);
      sums[thread].store(thread, 1.0f, count, h.width, out + h.out(head) + first * h.out_row, h.out_row);
    });
  }

 private:
  /// Rows after the last query are computed as if they were the last query, but not stored.
  DLPIPE_DEVICE bool seen(int query, int key) const {
    return h.sees(query < h.length ? query : h.length - 1, key);
  }
  /// The largest of the thread's part of a query's scores and of the previous ones. Part of a phase.
  DLPIPE_DEVICE void find_largest(int thread, int first, int key, const Softmax& own, Shared& shared) const {
    const int q = thread / kParts;
    float largest = own.largest;
    for (int k = thread % kParts; k < kRows; k += kParts) {
      if (seen(first + q, key + k)) largest = cuda::Larger()(shared.weights.at[q][k], largest);
    }
    shared.part[q][thread % kParts] = largest;
  }
  /// Turns scores into weights relative to the largest score so far, and rescales the sum if that changed. Part of a phase.
  DLPIPE_DEVICE void take_exponentials(int thread, int first, int key, Softmax& own, Shared& shared) const {
    const int q = thread / kParts;
    float largest = shared.part[q][0];
    for (int i = 1; i < kParts; ++i) largest = cuda::Larger()(shared.part[q][i], largest);
    const float factor = vector_math::exp(own.largest - largest);
    own = {largest, own.sum * factor};
    for (int k = thread % kParts; k < kRows; k += kParts) {
      float& weight = shared.weights.at[q][k];
      weight = seen(first + q, key + k) ? vector_math::exp(weight - largest) : 0.0f;
      own.sum += weight;
    }
    if (thread % kParts == 0) shared.factor[q] = factor;
  }
};

/// deltas = rowsum(dO O). One thread per query and head.
template <class T>
struct AttentionDeltas {
  static constexpr const char* kName = "self_attention gradient, deltas";
  static constexpr int kThreads = cuda::kAttentionThreads;
  using Shared = cuda::NoShared;
  const T* out;
  const T* grad_out;
  float* deltas;
  AttentionHeads h;
  int64_t count;

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, Shared&) const {
    block.each([&](int thread) {
      const int64_t i = block.index() * kThreads + thread;
      if (i >= count) return;
      const int64_t row = h.out(i / h.length) + i % h.length * h.out_row;
      float sum = 0;
      for (int d = 0; d < h.width; ++d) sum += widened(grad_out[row + d]) * widened(out[row + d]);
      deltas[i] = sum;
    });
  }
};

/// With P the softmax and O = P V: dP = dO V^T, dS = P (dP - deltas), dQ = scale dS K, dK = scale dS^T Q and
/// dV = P^T dO. A block of threads has kRows queries and walks the keys. With kOfKeys it has kRows keys and walks
/// the queries, and all matrices are transposed.
template <class T, int kWidth, bool kOfKeys>
struct AttentionGradient {
  static constexpr const char* kName =
      kOfKeys ? "self_attention gradient of keys" : "self_attention gradient of queries";
  static constexpr int kThreads = cuda::kAttentionThreads;
  static constexpr int kRows = kWidth > 64 ? 16 : 32;  // four tiles and the weights in 48 KB
  using Rows = AttentionTile<kRows, kWidth>;
  struct Shared {
    Rows own, own_beside;                     // queries and dO, or keys and values
    Rows other, other_beside;                 // keys and values, or queries and dO
    AttentionTile<kRows, kRows> weights;      // P^T, only for dV
    AttentionTile<kRows, kRows> grad_scores;  // dS
    float log_sums[kRows];
    float deltas[kRows];
  };
  const T* qkv;
  const T* grad_out;
  const float* log_sums;
  const float* deltas;
  T* grad_qkv;
  AttentionHeads h;

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, Shared& shared) const {
    const int64_t blocks = (h.length + kRows - 1) / kRows;
    const int64_t head = block.index() / blocks;
    const int first = static_cast<int>(block.index() % blocks) * kRows;
    const int count = h.length - first < kRows ? h.length - first : kRows;
    // The range of others that the block's own rows see or are seen by.
    const int begin = kOfKeys && h.causal ? first : 0;
    const int end = !kOfKeys && h.causal ? first + count : h.length;
    typename Block::template PerThread<AttentionSums<kRows, kWidth>> sums;  // dQ or dK
    typename Block::template PerThread<AttentionSums<kRows, kWidth>> value_sums;
    block.each([&](int thread) {
      load(thread, kOfKeys, head, first, shared.own, shared.own_beside, shared);
      sums[thread].clear();
      if constexpr (kOfKeys) value_sums[thread].clear();
    });
    for (int other = begin; other < end; other += kRows) {
      block.each([&](int thread) {
        load(thread, !kOfKeys, head, other, shared.other, shared.other_beside, shared);
      });
      block.each([&](int thread) {
        AttentionScores<kRows, kRows> scores;
        AttentionScores<kRows, kRows> grads;
        scores.multiply(thread, shared.own, shared.other, h.width);
        grads.multiply(thread, shared.own_beside, shared.other_beside, h.width);
        for (int i = 0; i < scores.kEachRows; ++i) {
          for (int j = 0; j < scores.kEachOthers; ++j) {
            const int r = scores.row(thread, i);
            const int o = scores.other(thread, j);
            const int q = kOfKeys ? o : r;
            const bool seen = kOfKeys ? h.sees(other + o, first + r) : h.sees(first + r, other + o);
            const float p = seen ? vector_math::exp(scores.at[i][j] * h.scale - shared.log_sums[q]) : 0.0f;
            if constexpr (kOfKeys) shared.weights.at[r][o] = p;
            shared.grad_scores.at[r][o] = seen ? p * (grads.at[i][j] - shared.deltas[q]) : 0.0f;
          }
        }
      });
      block.each([&](int thread) {
        sums[thread].add(thread, shared.grad_scores, shared.other);
        if constexpr (kOfKeys) value_sums[thread].add(thread, shared.weights, shared.other_beside);
      });
    }
    block.each([&](int thread) {
      T* to = grad_qkv + h.qkv(head) + first * h.qkv_row;
      sums[thread].store(thread, h.scale, count, h.width, kOfKeys ? to + h.out_row : to, h.qkv_row);
      if constexpr (kOfKeys)
        value_sums[thread].store(thread, 1.0f, count, h.width, to + 2 * h.out_row, h.qkv_row);
    });
  }

 private:
  /// Loads keys and values from position `first` on; or queries, dO, and the queries' log_sums and deltas. Part of a phase.
  DLPIPE_DEVICE void load(int thread, bool keys, int64_t head, int first, Rows& rows, Rows& beside,
                          Shared& shared) const {
    const int count = h.length - first;
    const T* from = qkv + h.qkv(head) + first * h.qkv_row;
    if (keys) {
      load_tile(thread, from + h.out_row, h.qkv_row, count, h.width, rows);
      load_tile(thread, from + 2 * h.out_row, h.qkv_row, count, h.width, beside);
      return;
    }
    load_tile(thread, from, h.qkv_row, count, h.width, rows);
    load_tile(thread, grad_out + h.out(head) + first * h.out_row, h.out_row, count, h.width, beside);
    if (thread >= kRows || thread >= count) return;
    shared.log_sums[thread] = log_sums[h.sums(head) + first + thread];
    shared.deltas[thread] = deltas[h.sums(head) + first + thread];
  }
};

/// Calls run(type, width) with the storage type and the smallest tile width that fits.
template <class Run>
void with_kernels(DType dtype, int64_t width, const Run& run) {
  cuda::stored(dtype, [&](auto type) {
    if (width <= 32) return run(type, std::integral_constant<int, 32>());
    if (width <= 64) return run(type, std::integral_constant<int, 64>());
    run(type, std::integral_constant<int, kMostWidth>());
  });
}

void self_attention_forward(const ForwardArgs& args) {
  const auto& attrs = args.attrs.as<AttentionAttrs>();
  const AttentionShape s(args.inputs[0].shape(), attrs);
  if (cuda::attend({.pass = cuda::AttentionPass::kForward,
                    .shape = s,
                    .causal = attrs.causal,
                    .dtype = args.inputs[0].dtype(),
                    .qkv = args.inputs[0].raw(),
                    .outputs = args.outputs[0].raw(),
                    .log_sums = args.outputs[1].raw()}))
    return;
  with_kernels(args.inputs[0].dtype(), s.width, [&](auto type, auto width) {
    using Kernel = Attention<decltype(type), decltype(width)::value>;
    cuda::launch(
        Kernel{elements_of<decltype(type)>(args.inputs[0]), elements_to<decltype(type)>(args.outputs[0]),
               args.outputs[1].data<float>(), AttentionHeads(s, attrs.causal)},
        s.batch * s.heads * cuda::blocks_for(s.length, Kernel::kRows));
  });
}

void self_attention_backward(const BackwardArgs& args) {
  const auto& attrs = args.attrs.as<AttentionAttrs>();
  const AttentionShape s(args.inputs[0].shape(), attrs);
  const AttentionHeads h(s, attrs.causal);
  const Tensor& log_sums = args.outputs[1];
  const Tensor deltas = Tensor::empty(log_sums.spec(), log_sums.device());
  if (cuda::attend({.pass = cuda::AttentionPass::kBackward,
                    .shape = s,
                    .causal = attrs.causal,
                    .dtype = args.inputs[0].dtype(),
                    .qkv = args.inputs[0].raw(),
                    .outputs = args.outputs[0].raw(),
                    .log_sums = log_sums.raw(),
                    .grad_outputs = args.grad_outputs[0].raw(),
                    .deltas = deltas.raw(),
                    .grad_qkv = args.grad_inputs[0].raw()}))
    return;
  with_kernels(args.inputs[0].dtype(), s.width, [&](auto type, auto width) {
    using T = decltype(type);
    const T* grad = elements_of<T>(args.grad_outputs[0]);
    cuda::launch(
        AttentionDeltas<T>{elements_of<T>(args.outputs[0]), grad, deltas.data<float>(), h, deltas.elements()},
        cuda::blocks_for(deltas.elements(), cuda::kAttentionThreads));
    const auto run = [&](auto of_keys) {
      using Kernel = AttentionGradient<T, decltype(width)::value, decltype(of_keys)::value>;
      cuda::launch(Kernel{elements_of<T>(args.inputs[0]), grad, log_sums.data<float>(), deltas.data<float>(),
                          elements_to<T>(args.grad_inputs[0]), h},
                   s.batch * s.heads * cuda::blocks_for(s.length, Kernel::kRows));
    };
    run(std::false_type());
    run(std::true_type());
  });
}

bool supports_self_attention(std::span<const TensorSpec> inputs, const Attrs& attrs) {
  return cuda::supports_stored(inputs, attrs) &&
         AttentionShape(inputs[0].shape, attrs.as<AttentionAttrs>()).width <= kMostWidth;
}

}  // namespace

DLPIPE_CUDA_KERNELS(self_attention) = {self_attention_forward, self_attention_backward,
                                       supports_self_attention};

}  // namespace dlpipe::engine
