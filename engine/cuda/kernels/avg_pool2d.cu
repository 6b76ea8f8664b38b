#include "dlpipe/engine/core/op.h"
#include "dlpipe/engine/cuda/loops/windows.h"
#include "dlpipe/engine/ops/ops.h"

namespace dlpipe::engine {
namespace {

/// 1 / count, of at least one. On a device an approximation and a step of Newton's, which is the rounded
/// quotient or next to it: nvcc's division calls a subroutine for what isn't normal, and
/// ptxas spilled around that.
DLPIPE_DEVICE float reciprocal(int count) {
  const auto n = static_cast<float>(count);
#if defined(__CUDA_ARCH__)
  const float near = __fdividef(1.0f, n);
  return fmaf(near, fmaf(-n, near, 1.0f), near);
#else
  return 1.0f / n;
#endif
}

/// 1 / the places that a window's mean counts.
DLPIPE_DEVICE float share(const cuda::Windows& windows, bool count_padding, int oh, int ow) {
  if (count_padding) return reciprocal(windows.rows.padded_length(oh) * windows.columns.padded_length(ow));
  const auto rows = windows.rows.inside(oh);
  const auto columns = windows.columns.inside(ow);
  return reciprocal((rows.end - rows.begin) * (columns.end - columns.begin));
}

/// One thread an output.
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

/// Gathered: each input's gradient from the windows that cover it. One thread an input.
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

void forward(const ForwardArgs& args) {
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

void backward(const BackwardArgs& args) {
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

DLPIPE_CUDA_KERNELS(avg_pool2d) = {forward, backward, cuda::supports_stored};

}  // namespace dlpipe::engine
