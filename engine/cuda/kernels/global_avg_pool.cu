#include "dlpipe/engine/core/op.h"
#include "dlpipe/engine/cuda/loops/windows.h"

namespace dlpipe::engine {
namespace {

/// Sums over chunks of pixels, an image each, that become means.
template <class T, int kWidth_, bool kAligned>
struct MeanOfImage {
  static constexpr const char* kName = "global_avg_pool";
  static constexpr int kWidth = kWidth_;
  static constexpr int kSums = 1;
  using Values = cuda::Channels<T, kWidth, kAligned>;
  const T* x;
  T* y;
  int64_t channels;
  float share;

  struct Factors {};
  DLPIPE_DEVICE Factors factors(int64_t, int64_t) const { return {}; }
  DLPIPE_DEVICE void add(int64_t i, const Factors&, float (&sums)[1][kWidth]) const {
    const Values values = Values::read(x + i);
    for (int k = 0; k < kWidth; ++k) sums[0][k] += cuda::widened(values.at[k]);
  }
  DLPIPE_DEVICE void store(int64_t image, int, int64_t channel, float sum) const {
    y[image * channels + channel] = cuda::narrowed<T>(sum * share);
  }
};

/// The same value into all pixels of a channel.
template <class T, int kWidth_, bool kAligned>
struct MeanOfImageGradient {
  static constexpr const char* kName = "global_avg_pool gradient";
  static constexpr int kWidth = kWidth_;
  using Values = cuda::Channels<T, kWidth, kAligned>;
  const T* grad_y;
  T* grad_x;
  int height;
  int width;
  int64_t channels;
  float share;

  DLPIPE_DEVICE void operator()(int n, int h, int w, int c) const {
    Values values = Values::read(grad_y + n * channels + c);
    for (int k = 0; k < kWidth; ++k) values.at[k] = cuda::narrowed<T>(cuda::widened(values.at[k]) * share);
    values.write(grad_x + ((static_cast<int64_t>(n) * height + h) * width + w) * channels + c);
  }
};

void forward(const ForwardArgs& args) {
  const Tensor& x = args.inputs[0];
  const Tensor& y = args.outputs[0];
  const int64_t pixels = x.size(1) * x.size(2);
  const int64_t channels = x.size(3);
  cuda::by_channels(x.dtype(), channels, {x.raw()}, [&](auto type, auto width, auto aligned) {
    using T = decltype(type);
    cuda::launch_channel_sums(
        x.size(0) * pixels, channels, pixels,
        MeanOfImage<T, width(), aligned()>{cuda::elements_of<T>(x), cuda::elements_to<T>(y), channels,
                                           1.0f / static_cast<float>(pixels)});
  });
}

void backward(const BackwardArgs& args) {
  const Tensor& grad_x = args.grad_inputs[0];
  const Tensor& grad_y = args.grad_outputs[0];
  const Shape& shape = grad_x.shape();
  cuda::by_channels(
      grad_x.dtype(), shape[3], {grad_x.raw(), grad_y.raw()}, [&](auto type, auto width, auto aligned) {
        using T = decltype(type);
        cuda::launch_each_pixel(
            shape, MeanOfImageGradient<T, width(), aligned()>{
                       cuda::elements_of<T>(grad_y), cuda::elements_to<T>(grad_x), static_cast<int>(shape[1]),
                       static_cast<int>(shape[2]), shape[3], 1.0f / static_cast<float>(shape[1] * shape[2])});
      });
}

}  // namespace

DLPIPE_CUDA_KERNELS(global_avg_pool) = {forward, backward, cuda::supports_stored};

}  // namespace dlpipe::engine
