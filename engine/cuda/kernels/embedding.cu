#include "dlpipe/engine/ops/embedding.h"

#include "dlpipe/engine/cuda/loops/sorted_ids.h"

namespace dlpipe::engine {
namespace {

/// An id that is no row of the table gives zeros: a kernel can't throw, and ids are checked where they come
/// in.
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

constexpr int kSpan = 128;  // sorted ids; part of the definition of sums

/// A pack of columns of sums, in f32.
template <class T, int kWidth>
struct ColumnSums {
  float at[kWidth] = {};

  DLPIPE_DEVICE void add(const T* from) {
    const auto values = *reinterpret_cast<const cuda::Pack<T, kWidth>*>(from);
    for (int k = 0; k < kWidth; ++k) at[k] += cuda::widened(values.at[k]);
  }
};

/// The sums of spans whose ids are all of one row, so that a row which most ids name isn't one long sum.
template <class T, int kWidth>
struct SpanSums {
  static constexpr const char* kName = "sums of spans of a row";
  static constexpr int kThreads = 128;
  using Shared = cuda::NoShared;
  const T* grad;
  const cuda::IdAt* items;
  float* to;  // [spans, width]; others stay as they are
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

/// Each element of the table's gradient is the sum of what its row's ids got: those before the first whole
/// span of the row, the spans, those behind.
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
  int64_t packs;  // of the table

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, Shared&) const {
    block.each([&](int thread) {
      const int64_t pack = block.index() * kThreads + thread;
      if (pack >= packs) return;
      const int64_t row = pack / (width / kWidth);
      const int64_t column = pack * kWidth - row * width;
      const int64_t begin = starts[row], end = starts[row + 1];
      const int64_t first = (begin + kSpan - 1) / kSpan, last = end / kSpan;  // whole spans
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

/// Calls body(T(), columns a thread takes at once, a constant) for rows of `table` and of `rows`.
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

void forward(const ForwardArgs& args) {
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

void backward(const BackwardArgs& args) {
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

bool supports(std::span<const TensorSpec> inputs, const Attrs& attrs) {
  return cuda::supports_stored(inputs.first(1), attrs);
}

}  // namespace

DLPIPE_CUDA_KERNELS(embedding) = {forward, backward, supports};

}  // namespace dlpipe::engine
