#include "engine/ops/reductions.h"

#include "engine/cuda/grid/elements.h"
#include "engine/cuda/loops/formula.h"
#include "engine/ops/shape_ops.h"

namespace dlpipe::engine::cuda {
inline namespace DLPIPE_GRID_NAMESPACE {

static float reduction_factor(const Shape& shape, uint32_t axes, bool mean) {
  return static_cast<float>(mean ? 1.0 / reduction_count(shape, axes) : 1.0);
}

template <bool kMean>
void reduce_forward(const ForwardArgs& args) {
  const uint32_t axes = args.attrs.as<ReductionAttrs>().axes;
  const Tensor& x = args.inputs[0];
  stored(x.dtype(), [&](auto type) {
    using T = decltype(type);
    sum_axes<T, T>(x, axes, reduction_factor(x.shape(), axes, kMean), args.outputs[0]);
  });
}

template <bool kMean>
void reduce_backward(const BackwardArgs& args) {
  const uint32_t axes = args.attrs.as<ReductionAttrs>().axes;
  const Tensor& grad_x = args.grad_inputs[0];
  const Shape kept = kept_shape(grad_x.shape(), axes);
  const Tensor grad = args.grad_outputs[0].view_as(kept, row_major(kept), 0);
  stored(grad_x.dtype(), [&](auto type) {
    using T = decltype(type);
    launch_stretched<T, T>(grad_x.shape(), {grad}, grad_x,
                           Times{reduction_factor(grad_x.shape(), axes, kMean)});
  });
}

template <bool kMean>
constexpr Kernels reduction_kernels() {
  return {reduce_forward<kMean>, reduce_backward<kMean>, supports_stored};
}

}  // namespace DLPIPE_GRID_NAMESPACE
}  // namespace dlpipe::engine::cuda

namespace dlpipe::engine {

DLPIPE_CUDA_KERNELS(sum) = cuda::reduction_kernels<false>();

DLPIPE_CUDA_KERNELS(mean) = cuda::reduction_kernels<true>();

namespace {

/// One thread per row along the axis.
template <class T>
struct MaxRows {
  static constexpr const char* kName = "max";
  static constexpr int kThreads = 128;
  using Shared = cuda::NoShared;
  const T* x;
  T* y;
  int64_t* place;
  AxisSplit split;

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, Shared&) const {
    block.each([&](int thread) {
      const int64_t row = block.index() * kThreads + thread;
      if (row >= split.outer * split.inner) return;
      const T* values = x + row / split.inner * split.count * split.inner + row % split.inner;
      int64_t best = 0;
      float largest = cuda::widened(values[0]);
      for (int64_t i = 1; i < split.count; ++i) {
        const float value = cuda::widened(values[i * split.inner]);
        if (value > largest || (value != value && largest == largest)) {
          best = i;
          largest = value;
        }
      }
      y[row] = values[best * split.inner];
      place[row] = best;
    });
  }
};

/// One block per contiguous row.
template <class T>
struct MaxOfRow {
  static constexpr const char* kName = "max of a row";
  static constexpr int kThreads = 128;
  static constexpr int64_t kLeast = 64;  // shorter rows leave too many threads idle
  using Shared = cuda::ReduceSpace<uint64_t, kThreads>;
  const T* x;
  T* y;
  int64_t* place;
  int64_t count;

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, Shared& shared) const {
    const T* values = x + block.index() * count;
    typename Block::template PerThread<uint64_t> best;
    block.each([&](int thread) {
      uint64_t own = 0;
      for (int64_t i = thread; i < count; i += kThreads) {
        const uint64_t key = key_of(cuda::widened(values[i]), static_cast<uint32_t>(i));
        own = key > own ? key : own;
      }
      best[thread] = own;
    });
    const uint64_t largest = block.reduce(
        best, [](uint64_t a, uint64_t b) { return a > b ? a : b; }, shared);
    block.each([&](int thread) {
      if (thread != 0) return;
      const auto at = static_cast<int64_t>(~static_cast<uint32_t>(largest));
      y[block.index()] = values[at];
      place[block.index()] = at;
    });
  }

 private:
  /// A key in the order of the values, with NaN above all. Of equal values the first has the largest key.
  DLPIPE_DEVICE static uint64_t key_of(float value, uint32_t at) {
    const auto bits = std::bit_cast<uint32_t>(value == 0 ? 0.0f : value);  // 0 and -0 are equal
    const uint32_t order = value != value ? ~0u : (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
    return uint64_t{order} << 32 | static_cast<uint32_t>(~at);
  }
};

/// One thread per element: the gradient at the largest element, else 0.
template <class T>
struct MaxGradient {
  static constexpr const char* kName = "max gradient";
  static constexpr int kThreads = 256;
  using Shared = cuda::NoShared;
  const T* grad;
  const int64_t* place;
  T* to;
  AxisSplit split;

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, Shared&) const {
    block.each([&](int thread) {
      const int64_t i = block.index() * kThreads + thread;
      if (i >= split.outer * split.count * split.inner) return;
      const int64_t row = i / (split.count * split.inner) * split.inner + i % split.inner;
      to[i] = place[row] == i / split.inner % split.count ? grad[row] : cuda::narrowed<T>(0.0f);
    });
  }
};

void max_forward(const ForwardArgs& args) {
  const AxisSplit split(args.inputs[0].shape(), args.attrs.as<MaxAttrs>().axis);
  cuda::stored(args.inputs[0].dtype(), [&](auto type) {
    using T = decltype(type);
    if (split.inner == 1 && split.count >= MaxOfRow<T>::kLeast && split.count <= UINT32_MAX)
      return cuda::launch(
          MaxOfRow<T>{cuda::elements_of<T>(args.inputs[0]), cuda::elements_to<T>(args.outputs[0]),
                      args.outputs[1].data<int64_t>(), split.count},
          split.outer);
    cuda::launch(MaxRows<T>{cuda::elements_of<T>(args.inputs[0]), cuda::elements_to<T>(args.outputs[0]),
                            args.outputs[1].data<int64_t>(), split},
                 cuda::blocks_for(split.outer * split.inner, MaxRows<T>::kThreads));
  });
}

void max_backward(const BackwardArgs& args) {
  const Tensor& grad_x = args.grad_inputs[0];
  const AxisSplit split(grad_x.shape(), args.attrs.as<MaxAttrs>().axis);
  cuda::stored(grad_x.dtype(), [&](auto type) {
    using T = decltype(type);
    cuda::launch(MaxGradient<T>{cuda::elements_of<T>(args.grad_outputs[0]), args.outputs[1].data<int64_t>(),
                                cuda::elements_to<T>(grad_x), split},
                 cuda::blocks_for(grad_x.elements(), MaxGradient<T>::kThreads));
  });
}

}  // namespace

DLPIPE_CUDA_KERNELS(max) = {max_forward, max_backward, cuda::supports_stored};

}  // namespace dlpipe::engine
