#include <cmath>

#include "dlpipe/op.h"
#include "dlpipe/ops.h"
#include "engine/cuda/loops/windows.h"

namespace dlpipe::engine {
namespace {

/// The largest value of a window and its first position in the window. NaN counts as the largest. One thread per output.
template <class T, class Index, int kWidth_, bool kAligned>
struct MaxOfWindow {
  static constexpr const char* kName = "max_pool2d";
  static constexpr int kWidth = kWidth_;
  using Values = cuda::Channels<T, kWidth, kAligned>;
  using Places = cuda::Channels<Index, kWidth, kAligned>;
  const T* x;
  T* y;
  Index* place;
  cuda::Windows windows;

  DLPIPE_DEVICE void operator()(int n, int oh, int ow, int c) const {
    const auto rows = windows.rows.inside(oh);
    const auto columns = windows.columns.inside(ow);
    const auto place_of = [&](int h, int w) {
      return (h - windows.rows.begin(oh)) * windows.columns.kernel + w - windows.columns.begin(ow);
    };
    float largest[kWidth];
    Places places;
    for (int k = 0; k < kWidth; ++k) {
      largest[k] = -INFINITY;
      places.at[k] = static_cast<Index>(place_of(rows.begin, columns.begin));
    }
    for (int h = rows.begin; h < rows.end; ++h) {
      int64_t i = windows.input(n, h, columns.begin, c);
      for (int w = columns.begin; w < columns.end; ++w, i += windows.channels) {
        const Values values = Values::read(x + i);
        const auto here = static_cast<Index>(place_of(h, w));
        for (int k = 0; k < kWidth; ++k) {
          const float value = cuda::widened(values.at[k]);
          const bool larger = value > largest[k] || (value != value && largest[k] == largest[k]);
          largest[k] = larger ? value : largest[k];
          places.at[k] = larger ? here : places.at[k];
        }
      }
    }
    Values best;
    for (int k = 0; k < kWidth; ++k) best.at[k] = cuda::narrowed<T>(largest[k]);
    const int64_t o = windows.output(n, oh, ow, c);
    best.write(y + o);
    places.write(place + o);
  }
};

/// Each input's gradient is gathered: the sum of the gradients of the windows that chose it. One thread per input.
template <class T, class Index, int kWidth_, bool kAligned>
struct MaxOfWindowGradient {
  static constexpr const char* kName = "max_pool2d gradient";
  static constexpr int kWidth = kWidth_;
  using Values = cuda::Channels<T, kWidth, kAligned>;
  using Places = cuda::Channels<Index, kWidth, kAligned>;
  const T* grad_y;
  const Index* place;
  T* grad_x;
  cuda::Windows windows;

  DLPIPE_DEVICE void operator()(int n, int h, int w, int c) const {
    const auto rows = windows.rows.covering(h);
    const auto columns = windows.columns.covering(w);
    float sums[kWidth] = {};
    for (int oh = rows.begin; oh < rows.end; ++oh) {
      const int row = (h - windows.rows.begin(oh)) * windows.columns.kernel;
      int64_t o = windows.output(n, oh, columns.begin, c);
      for (int ow = columns.begin; ow < columns.end; ++ow, o += windows.channels) {
        const int here = row + w - windows.columns.begin(ow);
        const Values values = Values::read(grad_y + o);
        const Places places = Places::read(place + o);
        for (int k = 0; k < kWidth; ++k) sums[k] += places.at[k] == here ? cuda::widened(values.at[k]) : 0.0f;
      }
    }
    Values out;
    for (int k = 0; k < kWidth; ++k) out.at[k] = cuda::narrowed<T>(sums[k]);
    out.write(grad_x + windows.input(n, h, w, c));
  }
};

/// Calls work(T(), Index(), width, aligned) for images and the positions chosen in their windows.
template <class Work>
void with_types(const Tensor& images, const Tensor& pooled, const Tensor& places, const Work& work) {
  cuda::by_channels(images.dtype(), images.size(3), {images.raw(), pooled.raw(), places.raw()},
                    [&](auto type, auto width, auto aligned) {
                      if (places.dtype() == DType::kU8) return work(type, uint8_t(), width, aligned);
                      work(type, int32_t(), width, aligned);
                    });
}

void max_pool2d_forward(const ForwardArgs& args) {
  const Tensor& x = args.inputs[0];
  const Tensor& y = args.outputs[0];
  const Tensor& places = args.outputs[1];
  const cuda::Windows windows(pool2d_shape("max_pool2d", x.spec(), args.attrs.as<Pool2dAttrs>()));
  with_types(x, y, places, [&](auto type, auto index, auto width, auto aligned) {
    using T = decltype(type);
    using Index = decltype(index);
    cuda::launch_each_pixel(
        y.shape(), MaxOfWindow<T, Index, width(), aligned()>{cuda::elements_of<T>(x), cuda::elements_to<T>(y),
                                                             cuda::elements_to<Index>(places), windows});
  });
}

void max_pool2d_backward(const BackwardArgs& args) {
  const Tensor& grad_x = args.grad_inputs[0];
  const Tensor& grad_y = args.grad_outputs[0];
  const Tensor& places = args.outputs[1];
  const cuda::Windows windows(pool2d_shape("max_pool2d", grad_x.spec(), args.attrs.as<Pool2dAttrs>()));
  with_types(grad_x, grad_y, places, [&](auto type, auto index, auto width, auto aligned) {
    using T = decltype(type);
    using Index = decltype(index);
    cuda::launch_each_pixel(grad_x.shape(),
                            MaxOfWindowGradient<T, Index, width(), aligned()>{
                                cuda::elements_of<T>(grad_y), cuda::elements_of<Index>(places),
                                cuda::elements_to<T>(grad_x), windows});
  });
}

}  // namespace

DLPIPE_CUDA_KERNELS(max_pool2d) = {max_pool2d_forward, max_pool2d_backward, cuda::supports_stored};

namespace {

/// 1 / count, for count >= 1. On a device it is an approximation and one Newton step, which gives the rounded
/// quotient or a neighbour of it. nvcc's division calls a subroutine for numbers that aren't normal, and ptxas
/// spilled registers around the call.
DLPIPE_DEVICE float reciprocal(int count) {
  const auto n = static_cast<float>(count);
#if defined(__CUDA_ARCH__)
  const float near = __fdividef(1.0f, n);
  return fmaf(near, fmaf(-n, near, 1.0f), near);
#else
  return 1.0f / n;
#endif
}

/// 1 / the number of positions that the window's mean counts.
DLPIPE_DEVICE float share(const cuda::Windows& windows, bool count_padding, int oh, int ow) {
  if (count_padding) return reciprocal(windows.rows.padded_length(oh) * windows.columns.padded_length(ow));
  const auto rows = windows.rows.inside(oh);
  const auto columns = windows.columns.inside(ow);
  return reciprocal((rows.end - rows.begin) * (columns.end - columns.begin));
}

/// One thread per output.
template <class T, int kWidth_, bool kAligned>
struct MeanOfWindow {
  static constexpr const char* kName = "avg_pool2d";
  static constexpr int kWidth = kWidth_;
  using Values = cuda::Channels<T, kWidth, kAligned>;
  const T* x;
  T* y;
  cuda::Windows windows;
  bool count_padding;

  DLPIPE_DEVICE void operator()(int n, int oh, int ow, int c) const {
    const auto rows = windows.rows.inside(oh);
    const auto columns = windows.columns.inside(ow);
    float sums[kWidth] = {};
    for (int h = rows.begin; h < rows.end; ++h) {
      int64_t i = windows.input(n, h, columns.begin, c);
      for (int w = columns.begin; w < columns.end; ++w, i += windows.channels) {
        const Values values = Values::read(x + i);
        for (int k = 0; k < kWidth; ++k) sums[k] += cuda::widened(values.at[k]);
      }
    }
    const float factor = share(windows, count_padding, oh, ow);
    Values out;
    for (int k = 0; k < kWidth; ++k) out.at[k] = cuda::narrowed<T>(sums[k] * factor);
    out.write(y + windows.output(n, oh, ow, c));
  }
};

/// Each input's gradient is gathered from the windows that cover it. One thread per input.
template <class T, int kWidth_, bool kAligned>
struct MeanOfWindowGradient {
  static constexpr const char* kName = "avg_pool2d gradient";
  static constexpr int kWidth = kWidth_;
  using Values = cuda::Channels<T, kWidth, kAligned>;
  const T* grad_y;
  T* grad_x;
  cuda::Windows windows;
  bool count_padding;

  DLPIPE_DEVICE void operator()(int n, int h, int w, int c) const {
    const auto rows = windows.rows.covering(h);
    const auto columns = windows.columns.covering(w);
    float sums[kWidth] = {};
    for (int oh = rows.begin; oh < rows.end; ++oh) {
      int64_t o = windows.output(n, oh, columns.begin, c);
      for (int ow = columns.begin; ow < columns.end; ++ow, o += windows.channels) {
        const Values values = Values::read(grad_y + o);
        const float factor = share(windows, count_padding, oh, ow);
        for (int k = 0; k < kWidth; ++k) sums[k] += cuda::widened(values.at[k]) * factor;
      }
    }
    Values out;
    for (int k = 0; k < kWidth; ++k) out.at[k] = cuda::narrowed<T>(sums[k]);
    out.write(grad_x + windows.input(n, h, w, c));
  }
};

void avg_pool2d_forward(const ForwardArgs& args) {
  const auto& attrs = args.attrs.as<Pool2dAttrs>();
  const Tensor& x = args.inputs[0];
  const Tensor& y = args.outputs[0];
  const cuda::Windows windows(pool2d_shape("avg_pool2d", x.spec(), attrs));
  cuda::by_channels(x.dtype(), x.size(3), {x.raw(), y.raw()}, [&](auto type, auto width, auto aligned) {
    using T = decltype(type);
    cuda::launch_each_pixel(
        y.shape(), MeanOfWindow<T, width(), aligned()>{cuda::elements_of<T>(x), cuda::elements_to<T>(y),
                                                       windows, attrs.count_include_pad});
  });
}

void avg_pool2d_backward(const BackwardArgs& args) {
  const auto& attrs = args.attrs.as<Pool2dAttrs>();
  const Tensor& grad_x = args.grad_inputs[0];
  const Tensor& grad_y = args.grad_outputs[0];
  const cuda::Windows windows(pool2d_shape("avg_pool2d", grad_x.spec(), attrs));
  cuda::by_channels(
      grad_x.dtype(), grad_x.size(3), {grad_x.raw(), grad_y.raw()}, [&](auto type, auto width, auto aligned) {
        using T = decltype(type);
        cuda::launch_each_pixel(
            grad_x.shape(), MeanOfWindowGradient<T, width(), aligned()>{cuda::elements_of<T>(grad_y),
                                                                        cuda::elements_to<T>(grad_x), windows,
                                                                        attrs.count_include_pad});
      });
}

}  // namespace

DLPIPE_CUDA_KERNELS(avg_pool2d) = {avg_pool2d_forward, avg_pool2d_backward, cuda::supports_stored};

namespace {

/// Sums over chunks of pixels, stored as means. Each chunk is an image.
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

/// Writes the channel's gradient, divided by the number of pixels, to all of its pixels.
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

void global_avg_pool_forward(const ForwardArgs& args) {
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

void global_avg_pool_backward(const BackwardArgs& args) {
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

DLPIPE_CUDA_KERNELS(global_avg_pool) = {global_avg_pool_forward, global_avg_pool_backward,
                                        cuda::supports_stored};

}  // namespace dlpipe::engine
