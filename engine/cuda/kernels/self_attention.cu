// self_attention on CUDA: cuDNN's where it is there and takes it (cudnn_attention.h), which has tensor cores.
// Else, and for f32, kernels of our own, which are also its twin in tests: blocks of queries against blocks
// of keys with a running softmax, so that nothing larger than a block of weights exists (Dao,
// "FlashAttention-2", 2023, algorithms 1 and 2). One block of threads per block of queries (backward also: of
// keys) of one head of one sequence; it walks the other side in order, so there are no atomics.
#include "dlpipe/engine/cuda/cudnn/cudnn_attention.h"
#include "dlpipe/engine/cuda/kernels/attention_tiles.h"
#include "dlpipe/engine/cuda/loops/rows.h"
#include "dlpipe/engine/ops/attention.h"
#include "dlpipe/engine/ops/vector_math.h"

namespace dlpipe::engine {
namespace {

using cuda::AttentionHeads;
using cuda::AttentionScores;
using cuda::AttentionSums;
using cuda::AttentionTile;
using cuda::elements_of;
using cuda::elements_to;
using cuda::widened;

constexpr int kMostWidth = 128;

/// One block kRows queries.
template <class T, int kWidth>
struct Attention {
  static constexpr const char* kName = "self_attention";
  static constexpr int kThreads = cuda::kAttentionThreads;
  static constexpr int kRows = 32;
  static constexpr int kParts = kThreads / kRows;  // threads a query in the softmax
  struct Shared {
    AttentionTile<kRows, kWidth> queries;
    AttentionTile<kRows, kWidth> others;  // keys, then their values
    AttentionTile<kRows, kRows> weights;
    float part[kRows][kParts];  // largest scores, in the end sums of exponentials
    float factor[kRows];
  };
  /// Of a query so far, in each of its threads.
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
  /// Rows beyond the last query are computed, and not stored, as if they were the last.
  DLPIPE_DEVICE bool seen(int query, int key) const {
    return h.sees(query < h.length ? query : h.length - 1, key);
  }
  /// Of the thread's share of a query's scores, and of those before. Part of a phase.
  DLPIPE_DEVICE void find_largest(int thread, int first, int key, const Softmax& own, Shared& shared) const {
    const int q = thread / kParts;
    float largest = own.largest;
    for (int k = thread % kParts; k < kRows; k += kParts) {
      if (seen(first + q, key + k)) largest = cuda::Larger()(shared.weights.at[q][k], largest);
    }
    shared.part[q][thread % kParts] = largest;
  }
  /// Scores become weights relative to the largest so far, which may be another than before. Part of a phase.
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

/// deltas = rowsum(dO O), one thread a query of a head.
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

/// With P the softmax and O = P V: dP = dO V^T, dS = P (dP - deltas), dQ = scale dS K;
/// dK = scale dS^T Q, dV = P^T dO. One block kRows queries, walking keys, or, with kOfKeys, kRows keys,
/// walking queries: then all is transposed.
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
    AttentionTile<kRows, kRows> weights;      // P^T, for dV alone
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
    // The others that own rows see or are seen by.
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
  /// Keys and values from position `first` on, or queries, dO and what the softmax left of them. Part of a
  /// phase.
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

/// Calls run(type, width): the storage type and the least width of tiles.
template <class Run>
void with_kernels(DType dtype, int64_t width, const Run& run) {
  cuda::stored(dtype, [&](auto type) {
    if (width <= 32) return run(type, std::integral_constant<int, 32>());
    if (width <= 64) return run(type, std::integral_constant<int, 64>());
    run(type, std::integral_constant<int, kMostWidth>());
  });
}

void forward(const ForwardArgs& args) {
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

void backward(const BackwardArgs& args) {
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

bool supports(std::span<const TensorSpec> inputs, const Attrs& attrs) {
  return cuda::supports_stored(inputs, attrs) &&
         AttentionShape(inputs[0].shape, attrs.as<AttentionAttrs>()).width <= kMostWidth;
}

}  // namespace

DLPIPE_CUDA_KERNELS(self_attention) = {forward, backward, supports};

}  // namespace dlpipe::engine
