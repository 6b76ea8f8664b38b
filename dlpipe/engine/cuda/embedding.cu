#include "dlpipe/engine/ops/embedding.h"

#include "dlpipe/engine/cuda/sorted_ids.h"

namespace dlpipe::engine {
namespace {

/// An id that is no row of the table gives zeros: a kernel can't throw, and ids are checked where they come
/// in.
template <class T>
struct EmbeddingRows {
  static constexpr const char* kName = "embedding";
  static constexpr int kThreads = 256;
  using Shared = cuda::NoShared;
  const T* table;
  const int64_t* ids;
  T* to;
  int64_t rows;
  int64_t width;
  int64_t elements;

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, Shared&) const {
    block.each([&](int thread) {
      const int64_t i = block.index() * kThreads + thread;
      if (i >= elements) return;
      const int64_t id = ids[i / width];
      to[i] = id >= 0 && id < rows ? table[id * width + i % width] : cuda::narrowed<T>(0.0f);
    });
  }
};

constexpr int kSpan = 128;  // sorted ids; part of the definition of sums

/// The sums of spans whose ids are all of one row, so that a row which most ids name isn't one long sum.
template <class T>
struct SpanSums {
  static constexpr const char* kName = "sums of spans of a row";
  static constexpr int kThreads = 256;
  using Shared = cuda::NoShared;
  const T* grad;
  const cuda::IdAt* items;
  float* to;  // [spans, width]; others stay as they are
  int64_t width;
  int64_t elements;

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, Shared&) const {
    block.each([&](int thread) {
      const int64_t i = block.index() * kThreads + thread;
      if (i >= elements) return;
      const cuda::IdAt* span = items + i / width * kSpan;
      if (span[0].id != span[kSpan - 1].id) return;
      float sum = 0;
      for (int k = 0; k < kSpan; ++k) sum += cuda::widened(grad[span[k].at * width + i % width]);
      to[i] = sum;
    });
  }
};

/// Each element of the table's gradient is the sum of what its row's ids got: those before the first whole
/// span of the row, the spans, those behind.
template <class T>
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
  int64_t elements;  // of the table

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, Shared&) const {
    block.each([&](int thread) {
      const int64_t i = block.index() * kThreads + thread;
      if (i >= elements) return;
      const int64_t column = i % width;
      const int64_t begin = starts[i / width], end = starts[i / width + 1];
      const int64_t first = (begin + kSpan - 1) / kSpan, last = end / kSpan;  // whole spans
      const bool has_spans = first < last;
      float sum = 0;
      for (int64_t k = begin; k < (has_spans ? first * kSpan : end); ++k)
        sum += cuda::widened(grad[items[k].at * width + column]);
      for (int64_t span = first; span < last; ++span) sum += spans[span * width + column];
      for (int64_t k = last * kSpan; has_spans && k < end; ++k)
        sum += cuda::widened(grad[items[k].at * width + column]);
      to[i] = cuda::narrowed<T>(sum);
    });
  }
};

void forward(const ForwardArgs& args) {
  const Tensor& table = args.inputs[0];
  const Tensor& to = args.outputs[0];
  cuda::stored(table.dtype(), [&](auto type) {
    using T = decltype(type);
    cuda::launch(EmbeddingRows<T>{cuda::elements_of<T>(table), args.inputs[1].data<int64_t>(),
                                  cuda::elements_to<T>(to), table.size(0), table.size(1), to.elements()},
                 cuda::blocks_for(to.elements(), EmbeddingRows<T>::kThreads));
  });
}

void backward(const BackwardArgs& args) {
  const Tensor& to = args.grad_inputs[0];
  const Tensor& ids = args.inputs[1];
  if (to.elements() == 0) return;
  const int64_t rows = to.size(0), width = to.size(1);
  const cuda::SortedIds sorted = cuda::sort_ids(ids, rows);
  const int64_t spans = ids.elements() / kSpan;
  const Tensor sums = Tensor::empty({{spans, width}, DType::kF32}, to.device());
  cuda::stored(to.dtype(), [&](auto type) {
    using T = decltype(type);
    const T* grad = cuda::elements_of<T>(args.grad_outputs[0]);
    cuda::launch(SpanSums<T>{grad, sorted.items, sums.data<float>(), width, sums.elements()},
                 cuda::blocks_for(sums.elements(), SpanSums<T>::kThreads));
    cuda::launch(EmbeddingGradient<T>{grad, sorted.items, sorted.starts, sums.data<float>(),
                                      cuda::elements_to<T>(to), width, to.elements()},
                 cuda::blocks_for(to.elements(), EmbeddingGradient<T>::kThreads));
  });
}

bool supports(std::span<const TensorSpec> inputs, const Attrs& attrs) {
  return cuda::supports_stored(inputs.first(1), attrs);
}

}  // namespace

DLPIPE_CUDA_KERNELS(embedding) = {forward, backward, supports};

}  // namespace dlpipe::engine
