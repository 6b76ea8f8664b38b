#include "dlpipe/engine/ops/embedding.h"

#include "dlpipe/engine/cuda/elements.h"

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

/// Every element of the table's gradient looks through all ids: no atomics, so that sums have one order. For
/// tables of characters; a long table with many ids wants its ids sorted first.
template <class T>
struct EmbeddingGradient {
  static constexpr const char* kName = "embedding gradient";
  static constexpr int kThreads = 256;
  using Shared = cuda::NoShared;
  const T* grad;
  const int64_t* ids;
  T* to;
  int64_t count;  // ids
  int64_t width;
  int64_t elements;  // of the table

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, Shared&) const {
    block.each([&](int thread) {
      const int64_t i = block.index() * kThreads + thread;
      if (i >= elements) return;
      float sum = 0;
      for (int64_t k = 0; k < count; ++k) {
        if (ids[k] == i / width) sum += cuda::widened(grad[k * width + i % width]);
      }
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
  cuda::stored(to.dtype(), [&](auto type) {
    using T = decltype(type);
    cuda::launch(
        EmbeddingGradient<T>{cuda::elements_of<T>(args.grad_outputs[0]), args.inputs[1].data<int64_t>(),
                             cuda::elements_to<T>(to), args.inputs[1].elements(), to.size(1), to.elements()},
        cuda::blocks_for(to.elements(), EmbeddingGradient<T>::kThreads));
  });
}

bool supports(std::span<const TensorSpec> inputs, const Attrs& attrs) {
  return cuda::supports_f32_bf16(inputs.first(1), attrs);
}

}  // namespace

DLPIPE_CUDA_KERNELS(embedding) = {forward, backward, supports};

}  // namespace dlpipe::engine
