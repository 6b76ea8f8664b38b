#include <cmath>

#include "dlpipe/engine/core/op.h"
#include "dlpipe/engine/cuda/loops/windows.h"
#include "dlpipe/engine/ops/ops.h"

namespace dlpipe::engine {
namespace {

/// The largest of a window, NaN above all, and where in the window it first stands. One thread an output.
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

/// Gathered: each input's gradient is the sum of those of the windows that chose it. One thread an input.
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

/// Calls work(T(), Index(), width, aligned) for images and the places chosen in their windows.
template <class Work>
void with_types(const Tensor& images, const Tensor& pooled, const Tensor& places, const Work& work) {
  cuda::by_channels(images.dtype(), images.size(3), {images.raw(), pooled.raw(), places.raw()},
                    [&](auto type, auto width, auto aligned) {
                      if (places.dtype() == DType::kU8) return work(type, uint8_t(), width, aligned);
                      work(type, int32_t(), width, aligned);
                    });
}

void forward(const ForwardArgs& args) {
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

void backward(const BackwardArgs& args) {
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

DLPIPE_CUDA_KERNELS(max_pool2d) = {forward, backward, cuda::supports_stored};

}  // namespace dlpipe::engine
