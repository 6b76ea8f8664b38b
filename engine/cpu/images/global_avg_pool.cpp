// global_avg_pool on the CPU: one slice per image.
#include <algorithm>

#include "dlpipe/engine/core/op.h"
#include "dlpipe/engine/core/parallel.h"
#include "dlpipe/engine/cpu/loops/channel_walk.h"
#include "dlpipe/engine/cpu/loops/supports.h"

namespace dlpipe::engine {
namespace {

using cpu::F32x8;

/// Adds each channel of a chunk to sum[channel].
template <class T>
struct ChannelSums {
  const T* x;
  float* sum;  // of one image, zeroed

  template <int kVectors, int kPixel, class Io>
  DLPIPE_INLINE void strip(const Io& io, int64_t channel, int64_t offset, int64_t rows,
                           int64_t stride) const {
    F32x8 sums[kVectors]{};
    for (int64_t row = 0; row < rows; ++row) {
      for (int v = 0; v < kVectors; ++v) sums[v] += io.get(x + offset + row * stride + v * cpu::kLanes);
    }
    for (int v = kPixel; v < kVectors; ++v) sums[v % kPixel] += sums[v];
    for (int v = 0; v < kPixel; ++v) {
      float* to = sum + channel + v * cpu::kLanes;
      io.put(to, io.get(to) + sums[v]);
    }
  }
};

/// The same value into all pixels of a channel.
template <class T>
struct Spread {
  const float* value;  // [C] of one image
  T* x;

  template <int kVectors, int kPixel, class Io>
  DLPIPE_INLINE void strip(const Io& io, int64_t channel, int64_t offset, int64_t rows,
                           int64_t stride) const {
    F32x8 values[kVectors];
    for (int v = 0; v < kVectors; ++v) values[v] = io.get(value + channel + (v % kPixel) * cpu::kLanes);
    for (int64_t row = 0; row < rows; ++row) {
      for (int v = 0; v < kVectors; ++v) io.put(x + offset + row * stride + v * cpu::kLanes, values[v]);
    }
  }
};

/// Calls use(chunk) for the groups of channels of image `n`.
template <class Use>
DLPIPE_INLINE inline void for_chunks(const Tensor& images, int64_t n, const Use& use) {
  const int64_t pixels = images.shape()[1] * images.shape()[2];
  const int64_t channels = images.shape()[3];
  const int64_t width = images.layout() == Layout::kPlain ? channels : layout_block(images.layout());
  for (int64_t c = 0; c < channels; c += width) {
    use(cpu::Chunk{n * pixels * channels + c * pixels, pixels, width, c, width});
  }
}

template <class T>
void forward(const Tensor& x, const Tensor& y) {
  const int64_t channels = x.shape()[3];
  const float share = 1.0f / static_cast<float>(x.shape()[1] * x.shape()[2]);
  parallel_slices(x.shape()[0], [&](int64_t n) {
    auto* sum = reinterpret_cast<float*>(worker_scratch(1, static_cast<size_t>(channels) * sizeof(float)));
    std::fill_n(sum, channels, 0.0f);
    for_chunks(x, n, [&](const cpu::Chunk& chunk) {
      const ChannelSums<T> sums{static_cast<const T*>(x.raw()), sum};
      cpu::on_best_isa([=]() DLPIPE_INLINE { walk(chunk, sums); });
    });
    T* to = static_cast<T*>(y.raw()) + n * channels;
    for (int64_t c = 0; c < channels; ++c) cpu::store_one(to + c, sum[c] * share);
  });
}

template <class T>
void backward(const Tensor& dy, const Tensor& dx) {
  const int64_t channels = dx.shape()[3];
  const float share = 1.0f / static_cast<float>(dx.shape()[1] * dx.shape()[2]);
  parallel_slices(dx.shape()[0], [&](int64_t n) {
    auto* value = reinterpret_cast<float*>(worker_scratch(1, static_cast<size_t>(channels) * sizeof(float)));
    const T* from = static_cast<const T*>(dy.raw()) + n * channels;
    for (int64_t c = 0; c < channels; ++c) value[c] = cpu::load_one(from + c) * share;
    for_chunks(dx, n, [&](const cpu::Chunk& chunk) {
      const Spread<T> spread{value, static_cast<T*>(dx.raw())};
      cpu::on_best_isa([=]() DLPIPE_INLINE { walk(chunk, spread); });
    });
  });
}

}  // namespace

extern const Kernels global_avg_pool_cpu;
const Kernels global_avg_pool_cpu{
    .forward =
        [](const ForwardArgs& args) {
          const Tensor& x = args.inputs[0];
          x.dtype() == DType::kBF16 ? forward<BFloat16>(x, args.outputs[0])
                                    : forward<float>(x, args.outputs[0]);
        },
    .backward =
        [](const BackwardArgs& args) {
          const Tensor& dx = args.grad_inputs[0];
          dx.dtype() == DType::kBF16 ? backward<BFloat16>(args.grad_outputs[0], dx)
                                     : backward<float>(args.grad_outputs[0], dx);
        },
    .supports = cpu::supports_first_f32_bf16,
};

}  // namespace dlpipe::engine
