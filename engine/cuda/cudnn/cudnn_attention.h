// self_attention as a graph of cuDNN operations, forward and backward, and the conditions for using cuDNN. Host
// code that doesn't need the library, so tests run without it (tests/engine/cuda/attention_graph_test.cpp).
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "base/text.h"
#include "dlpipe/dtype.h"
#include "dlpipe/error.h"
#include "engine/cuda/cudnn/cudnn_graph.h"
#include "engine/cuda/grid/grid.h"
#include "engine/ops/sequences.h"

namespace dlpipe::engine::cuda {

enum class AttentionPass : uint8_t { kForward, kBackward };

/// One pass. Forward reads qkv [B,T,3*H*D] and writes outputs [B,T,H*D] and log_sums [B,H,T], the logarithms
/// of the softmax's sums. Backward reads these and grad_outputs and writes grad_qkv; it also uses deltas
/// [B,H,T]. All are contiguous in device memory and of `dtype`, except log_sums and deltas, which are f32.
struct AttentionProblem {
  AttentionPass pass;
  AttentionShape shape;
  bool causal = false;
  DType dtype = DType::kBF16;
  void* qkv = nullptr;
  void* outputs = nullptr;
  void* log_sums = nullptr;
  void* grad_outputs = nullptr;
  void* deltas = nullptr;
  void* grad_qkv = nullptr;
};

/// Everything that a plan depends on.
using AttentionKey = std::array<int64_t, 7>;
inline AttentionKey key_of(const AttentionProblem& p) {
  const AttentionShape& s = p.shape;
  return {static_cast<int64_t>(p.pass),
          static_cast<int64_t>(p.dtype),
          p.causal,
          s.batch,
          s.length,
          s.heads,
          s.width};
}

/// Ok, or kUnsupported with the reason not to use cuDNN. It supports bf16 and f16, heads whose width is a multiple of 8 up
/// to 128, memory aligned to 16 bytes, and sequences of at least two positions.
inline Status cudnn_takes(const AttentionProblem& p) {
  const auto refused = [&](const auto&... why) {
    return Status(ErrorCode::kUnsupported, concat("[self_attention] not with cuDNN: ", why...));
  };
  if (p.dtype != DType::kBF16 && p.dtype != DType::kF16)
    return refused("it supports bf16 and f16, not ", dtype_name(p.dtype));
  if (p.shape.width % 8 != 0 || p.shape.width > 128)
    return refused("heads ", p.shape.width, " wide; it supports multiples of 8 up to 128");
  if (p.shape.length < 2) return refused("sequences of length ", p.shape.length);
  uintptr_t bits = 0;
  for (const void* memory : {p.qkv, p.outputs, p.log_sums, p.grad_outputs, p.deltas, p.grad_qkv})
    bits |= reinterpret_cast<uintptr_t>(memory);
  if (bits % 16 != 0) return refused("memory that isn't aligned to 16 bytes");
  return {};
}
/// The same for cuDNN's version (CUDNN_VERSION) and the device's compute capability (9: Hopper). Versions up to
/// 9.15.0 need a mask in backward for lengths that are not multiples of 128. Backward's engines have no note
/// about determinism. Those for Hopper are known to be deterministic if dQ isn't summed in memory, as in
/// AttentionGraph. Blackwell's are not deterministic, and Ampere's are not known to be. Sources:
/// cudnn-frontend's pull request 398, and Transformer Engine's choice of backends for deterministic runs.
inline Status cudnn_takes_on(const AttentionProblem& p, size_t version, int capability) {
  if (version < 91501)
    return Status(ErrorCode::kUnsupported, concat("[self_attention] not with cuDNN: it has version ", version,
                                                  ", the oldest supported one is 91501"));
  if (p.pass == AttentionPass::kBackward && capability != 9)
    return Status(ErrorCode::kUnsupported,
                  concat("[self_attention] not with cuDNN: its backward is known to be deterministic on "
                         "devices of compute capability 9.x only, and this one has ",
                         capability, ".x"));
  return {};
}

/// The operations of a pass. Queries, keys and values are views of qkv, and their gradients are views of grad_qkv.
class AttentionGraph {
 public:
  /// The ids of tensors that have memory.
  enum Id : int64_t {
    kQueries = 1,
    kKeys,
    kValues,
    kOutputs,
    kLogSums,
    kGradOutputs,
    kDeltas,
    kGradQueries,
    kGradKeys,
    kGradValues,
    kFirstOther,
  };

  /// `type`: cuDNN's name for the problem's dtype.
  AttentionGraph(const AttentionProblem& p, cudnn::DataType type)
      : s_(p.shape), type_(type), causal_(p.causal) {
    scale_ = constant(static_cast<float>(s_.scale));
    if (p.pass == AttentionPass::kForward) {
      forward();
    } else {
      backward();
    }
  }
  const cudnn::Operations& operations() const { return graph_; }

  /// The address of each tensor. `p` has the graph's shape.
  static std::vector<cudnn::Binding> bindings(const AttentionProblem& p) {
    const auto part = [&](void* memory, int64_t index) {
      const int64_t bytes = p.shape.out_row() * static_cast<int64_t>(dtype_size(p.dtype));
      return static_cast<char*>(memory) + index * bytes;
    };
    std::vector<cudnn::Binding> out = {{kQueries, part(p.qkv, 0)},
                                       {kKeys, part(p.qkv, 1)},
                                       {kValues, part(p.qkv, 2)},
                                       {kOutputs, p.outputs},
                                       {kLogSums, p.log_sums}};
    if (p.pass == AttentionPass::kForward) return out;
    out.insert(out.end(), {{kGradOutputs, p.grad_outputs},
                           {kDeltas, p.deltas},
                           {kGradQueries, part(p.grad_qkv, 0)},
                           {kGradKeys, part(p.grad_qkv, 1)},
                           {kGradValues, part(p.grad_qkv, 2)}});
    return out;
  }

 private:
  using Type = cudnn::DescriptorType;
  using Mode = cudnn::PointwiseMode;
  using Data = cudnn::DataType;
  using Extents = cudnn::Extents;

  /// P = softmax(scale Q K^T), O = P V. With m the largest score of a row, log_sums = m + log sum exp(score - m).
  void forward() {
    const size_t scores = scaled(product(view(kQueries), turned_view(kKeys), pairs(Data::kF32)));
    const size_t seen = causal_ ? masked(scores) : scores;
    const size_t largest = reduced(cudnn::ReductionMode::kLargest, seen);
    const size_t weights = each(Mode::kExp, each(Mode::kSubtract, seen, largest));
    const size_t sums = reduced(cudnn::ReductionMode::kSum, weights);
    each(Mode::kAdd, largest, each(Mode::kLog, sums, {}, rows(Data::kF32)), of_rows(kLogSums));
    product(each(Mode::kDivide, weights, sums, pairs(type_)), view(kValues), of_outputs(kOutputs));
  }

  /// deltas = rowsum(dO O), dV = P^T dO, dP = dO V^T, dS = scale P (dP - deltas), dK = dS^T Q, dQ = dS K.
  /// dQ is written directly. If it were summed in f32 memory, blocks of keys would add to it in any order.
  void backward() {
    const size_t grad_outputs = of_outputs(kGradOutputs);
    const size_t products =
        each(Mode::kMultiply, grad_outputs, of_outputs(kOutputs), temporary(Data::kF32, s_.width));
    const size_t deltas =
        each(Mode::kMultiply, reduced(cudnn::ReductionMode::kSum, products), constant(1), of_rows(kDeltas));
    const size_t queries = view(kQueries);
    const size_t keys = turned_view(kKeys);
    const size_t scores = scaled(product(queries, keys, pairs(Data::kF32)));
    const size_t logs = each(Mode::kSubtract, scores, of_rows(kLogSums));  // log of the softmax
    const size_t softmax = each(Mode::kExp, causal_ ? masked(logs) : logs);
    product(turned(softmax, type_), grad_outputs, view(kGradValues));
    const size_t grad_softmax = product(grad_outputs, turned_view(kValues), pairs(Data::kF32));
    const size_t grad_scores =
        scaled(each(Mode::kMultiply, each(Mode::kSubtract, grad_softmax, deltas), softmax));
    product(turned(grad_scores, type_), queries, view(kGradKeys));
    product(grad_scores, turned(keys, type_), view(kGradQueries));
  }

  /// Sets the scores of keys after their query to -inf.
  size_t masked(size_t scores) {
    const auto index = [&](int64_t axis) {
      return graph_.add(
          {.x = scores, .y = pairs(Data::kI32), .pointwise = Mode::kIndex, .axis = axis, .math = Data::kI32});
    };
    const size_t query = index(2);
    const size_t key = index(3);
    const size_t sees = graph_.add({.x = query,
                                    .y = pairs(Data::kBoolean),
                                    .b = key,
                                    .pointwise = Mode::kGreaterOrEqual,
                                    .math = Data::kBoolean});
    return graph_.add({.x = scores,
                       .y = pairs(Data::kF32),
                       .b = constant(-std::numeric_limits<float>::infinity()),
                       .t = sees,
                       .pointwise = Mode::kSelect});
  }
  size_t scaled(size_t scores) { return each(Mode::kMultiply, scores, scale_); }

  /// Computes y from x, or from x and b. By default y is f32 with x's size.
  size_t each(Mode mode, size_t x, std::optional<size_t> b = {}, std::optional<size_t> y = {}) {
    return graph_.add({.x = x, .y = y ? *y : pairs(Data::kF32), .b = b, .pointwise = mode});
  }
  size_t reduced(cudnn::ReductionMode mode, size_t x) {
    return graph_.add({.type = Type::kReductionOperation, .x = x, .y = rows(Data::kF32), .reduction = mode});
  }
  size_t product(size_t a, size_t b, size_t y) {
    return graph_.add({.type = Type::kMatmulOperation, .x = a, .y = y, .b = b});
  }
  /// The matrices transposed: the same elements with swapped strides.
  size_t turned(size_t x, Data type) {
    cudnn::GraphTensor y = graph_.tensors[x];
    y.id = next_id_++;
    y.type = type;
    y.is_virtual = true;
    turn(y);
    return graph_.add({.type = Type::kReshapeOperation, .x = x, .y = graph_.add(y)});
  }
  static void turn(cudnn::GraphTensor& matrices) {
    std::swap(matrices.dims[2], matrices.dims[3]);
    std::swap(matrices.strides[2], matrices.strides[3]);
  }

  size_t pairs(Data type) { return temporary(type, s_.length); }  // [B,H,T,T]
  size_t rows(Data type) { return temporary(type, 1); }           // [B,H,T,1]
  size_t temporary(Data type, int64_t width) {
    const Extents dims = {s_.batch, s_.heads, s_.length, width};
    return graph_.add({.id = next_id_++,
                       .type = type,
                       .dims = dims,
                       .strides = cudnn::contiguous_strides(dims),
                       .is_virtual = true});
  }
  size_t constant(float value) {
    return graph_.add({.id = next_id_++,
                       .dims = {1, 1, 1, 1},
                       .strides = {1, 1, 1, 1},
                       .alignment = sizeof(float),
                       .value = value});
  }
  /// log_sums or deltas, one value per row.
  size_t of_rows(Id id) {
    const Extents dims = {s_.batch, s_.heads, s_.length, 1};
    return graph_.add({.id = id, .dims = dims, .strides = cudnn::contiguous_strides(dims)});
  }
  size_t of_outputs(Id id) { return graph_.add(heads(id, s_.out_row())); }
  /// A part of qkv or grad_qkv.
  size_t view(Id id) { return graph_.add(heads(id, s_.qkv_row())); }
  size_t turned_view(Id id) {
    cudnn::GraphTensor tensor = heads(id, s_.qkv_row());
    turn(tensor);
    return graph_.add(tensor);
  }
  /// [B,H,T,D] in memory with `row` elements per position.
  cudnn::GraphTensor heads(Id id, int64_t row) const {
    return {.id = id,
            .type = type_,
            .dims = {s_.batch, s_.heads, s_.length, s_.width},
            .strides = {s_.length * row, s_.width, row, 1}};
  }

  const AttentionShape s_;
  const cudnn::DataType type_;
  const bool causal_;
  size_t scale_ = 0;
  int64_t next_id_ = kFirstOther;
  cudnn::Operations graph_;
};

inline namespace DLPIPE_GRID_NAMESPACE {

// Attention by cuDNN 9's graph API (cudnn_attention.cpp). The simulated grid has none
// (tests/engine/cuda/simulated_attention.cpp).

/// Queues the pass in the calling thread's stream. Sums are in f32 and the same on every run. Returns false and does
/// nothing if cuDNN is missing, disabled or has no such engine; then use another implementation. The two passes may use
/// different implementations, because log_sums mean the same in all. The first call for a shape on a thread builds a plan,
/// which may take a second and memory, so don't capture that call in a graph.
bool attend(const AttentionProblem& problem);

}  // namespace DLPIPE_GRID_NAMESPACE
}  // namespace dlpipe::engine::cuda
