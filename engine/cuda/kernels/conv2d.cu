#include "engine/ops/conv2d.h"

#include "engine/cuda/cudnn/cudnn_conv.h"
#include "engine/cuda/gemm/gemm.h"
#include "engine/cuda/grid/elements.h"
#include "engine/cuda/grid/grid.h"
#include "engine/cuda/kernels/activation.h"
#include "engine/cuda/kernels/im2col.h"
#include "engine/cuda/loops/strided.h"
#include "engine/cuda/loops/sums.h"
#include "engine/ops/window.h"

namespace dlpipe::engine::cuda {
inline namespace DLPIPE_GRID_NAMESPACE {

/// How a convolution is folded: neighbouring pixels become channels of one pixel. The sums are the original ones plus zeros.
struct Folding {
  Conv2dShape shape;  // of the folded convolution
  int fold = 1;       // rows, and columns, that become one
  int top = 0;        // rows of zeros before an image's first row
  int left = 0;
  int weights_top = 0;  // the same for a filter
  int weights_left = 0;
};

/// `width`: the number of channels in a pack.
static Folding folding_of(const Conv2dShape& s, int width) {
  Folding out;
  out.shape = s;
  const bool in_twos = s.stride == std::array{2, 2} && s.dilation == std::array{1, 1} && 4 * s.c <= 2 * width;
  if (in_twos && s.kh > 1 && s.kw > 1) {
    out.fold = 2;
    out.weights_top = s.padding[0] % 2;  // so that images begin with whole pairs of rows
    out.weights_left = s.padding[1] % 2;
    out.top = s.padding[0] + out.weights_top;
    out.left = s.padding[1] + out.weights_left;
    out.shape.kh = blocks_for(s.kh + out.weights_top, 2);
    out.shape.kw = blocks_for(s.kw + out.weights_left, 2);
    out.shape.h = s.oh + out.shape.kh - 1;
    out.shape.w = s.ow + out.shape.kw - 1;
    out.shape.stride = {1, 1};
    out.shape.padding = {0, 0};
  }
  out.shape.c = blocks_for(s.c * out.fold * out.fold, width) * width;
  return out;
}

/// The shape of images or filters, [count, height, width, channels].
struct Pixels {
  int64_t count;
  int height;
  int width;
  int channels;
};

/// Writes folded pixels. One thread per pack of a folded pixel. `kFold`: rows, and columns, that become one.
template <class T, int kFold>
struct FoldPixels {
  static constexpr const char* kName = "folded pixels";
  static constexpr int kThreads = 256;
  using Shared = NoShared;
  const T* from;
  Pack<T>* to;
  Pixels of;
  int top;
  int left;
  int height;  // folded
  int width;
  int packs;  // per folded pixel

  int64_t threads() const { return of.count * height * width * packs; }

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, Shared&) const {
    block.each([&](int thread) {
      const int64_t i = block.index() * kThreads + thread;
      if (i >= of.count * height * width * packs) return;
      const auto pixel = i / packs;
      const int row = static_cast<int>(pixel / width % height) * kFold - top;
      const int column = static_cast<int>(pixel % width) * kFold - left;
      const int64_t image = pixel / width / height * of.height;
      int phase = static_cast<int>(i % packs) * kPackWidth<T> / of.channels;
      int channel = static_cast<int>(i % packs) * kPackWidth<T> % of.channels;
      Pack<T> out;
      for (int k = 0; k < kPackWidth<T>; ++k) {
        const int y = row + phase / kFold, x = column + phase % kFold;
        const bool is_inside = phase < kFold * kFold && y >= 0 && y < of.height && x >= 0 && x < of.width;
        out.at[k] =
            is_inside ? from[((image + y) * of.width + x) * of.channels + channel] : narrowed<T>(0.0f);
        if (++channel < of.channels) continue;
        channel = 0;
        ++phase;
      }
      to[i] = out;
    });
  }
};

/// One thread per pixel, which it extracts from a folded pixel.
template <class T>
struct UnfoldPixels {
  static constexpr const char* kName = "unfolded pixels";
  static constexpr int kThreads = 256;
  using Shared = NoShared;
  const T* from;
  T* to;
  Pixels of;
  int fold;
  int top;
  int left;
  int height;  // folded
  int width;
  int channels;

  int64_t threads() const { return of.count * of.height * of.width; }

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, Shared&) const {
    block.each([&](int thread) {
      const int64_t i = block.index() * kThreads + thread;
      if (i >= of.count * of.height * of.width) return;
      const int x = static_cast<int>(i % of.width) + left;
      const int y = static_cast<int>(i / of.width % of.height) + top;
      const int64_t image = i / of.width / of.height;
      const int64_t pixel = (image * height + y / fold) * width + x / fold;
      const int phase = y % fold * fold + x % fold;
      for (int c = 0; c < of.channels; ++c)
        to[i * of.channels + c] = from[pixel * channels + phase * of.channels + c];
    });
  }
};

}  // namespace DLPIPE_GRID_NAMESPACE
}  // namespace dlpipe::engine::cuda

namespace dlpipe::engine {

// conv2d on CUDA. If cuDNN is available and has a plan for the shape (cudnn_conv.h), it computes the convolution. Otherwise
// the windows of a chunk of images become a matrix (im2col), which is multiplied by the weights as rows (kh, kw, c), with
// one product per group. Filters that see one channel each (depthwise) have their own kernels. bf16 and f16 images with few
// channels, as in a network's first layer, are folded for cuDNN (folding_of).

namespace {

using cuda::blocks_for;
using cuda::chunk_images;
using cuda::each_chunk;
using cuda::elements_of;
using cuda::elements_to;
using cuda::image_elements;
using cuda::launch;
using cuda::narrowed;
using cuda::output_elements;
using cuda::take_index;
using cuda::widened;
using cuda::window_elements;

constexpr int64_t kWindowBytes = int64_t{256} << 20;  // of scratch, unless one image needs more

/// One thread per output. Output channel o reads image channel o / (O/C).
template <class T>
struct DepthwiseConv {
  static constexpr const char* kName = "depthwise conv2d";
  static constexpr int kThreads = 256;
  using Shared = cuda::NoShared;
  const T* images;
  const T* weights;
  const T* bias;  // or null
  T* to;
  Conv2dShape s;
  int filters;  // per channel
  int64_t elements;

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, Shared&) const {
    block.each([&](int thread) {
      const int64_t element = block.index() * kThreads + thread;
      if (element >= elements) return;
      auto i = static_cast<uint32_t>(element);
      const int o = take_index(i, s.o);
      const int ow = take_index(i, s.ow);
      const int oh = take_index(i, s.oh);
      const T* image = images + i * s.h * s.w * s.c + o / filters;
      const T* filter = weights + o * s.kh * s.kw;
      float sum = bias != nullptr ? widened(bias[o]) : 0.0f;
      cuda::each_tap(s, oh, ow, [&](int64_t tap, int64_t pixel) {
        sum += widened(image[pixel * s.c]) * widened(filter[tap]);
      });
      to[element] = narrowed<T>(sum);
    });
  }
};

/// One thread per element of the images' gradient.
template <class T>
struct DepthwiseImageGradient {
  static constexpr const char* kName = "depthwise conv2d, gradient of images";
  static constexpr int kThreads = 256;
  using Shared = cuda::NoShared;
  const T* grad;
  const T* weights;
  T* to;
  Conv2dShape s;
  int filters;  // per channel
  int64_t elements;

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, Shared&) const {
    block.each([&](int thread) {
      const int64_t element = block.index() * kThreads + thread;
      if (element >= elements) return;
      auto i = static_cast<uint32_t>(element);
      const int c = take_index(i, s.c);
      const int w = take_index(i, s.w);
      const int h = take_index(i, s.h);
      const int64_t taps = s.kh * s.kw;
      float sum = 0;
      cuda::each_window(s, h, w, [&](int64_t tap, int64_t window) {
        const T* outputs = grad + (i * s.oh * s.ow + window) * s.o + c * filters;
        for (int64_t k = 0; k < filters; ++k)
          sum += widened(outputs[k]) * widened(weights[(c * filters + k) * taps + tap]);
      });
      to[element] = narrowed<T>(sum);
    });
  }
};

/// One block per chunk of images, filter position and tile of output channels; `to` holds [chunks, O, KH*KW].
template <class T>
struct DepthwiseWeightGradient {
  static constexpr const char* kName = "depthwise conv2d, gradient of weights";
  static constexpr int kTile = 32;
  static constexpr int kLanes = 8;  // windows at once
  static constexpr int kThreads = kTile * kLanes;
  struct Shared {
    float part[kLanes][kTile];
  };
  const T* images;
  const T* grad;
  float* to;
  Conv2dShape s;
  int filters;    // per channel
  int64_t chunk;  // images per chunk

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, Shared& shared) const {
    const int64_t tiles = (s.o + kTile - 1) / kTile;
    const int64_t taps = s.kh * s.kw;
    const int64_t left = block.index() % tiles * kTile;
    const int64_t tap = block.index() / tiles % taps;
    const int64_t part = block.index() / tiles / taps;
    const int64_t end = (part + 1) * chunk < s.n ? (part + 1) * chunk : s.n;
    const int down = static_cast<int>(tap / s.kw) * s.dilation[0] - s.padding[0];
    const int right = static_cast<int>(tap % s.kw) * s.dilation[1] - s.padding[1];
    block.each([&](int thread) {
      const int64_t o = left + thread % kTile;
      float sum = 0;
      for (int64_t n = part * chunk; o < s.o && n < end; ++n) {
        const T* image = images + n * s.h * s.w * s.c + o / filters;
        const T* outputs = grad + n * s.oh * s.ow * s.o + o;
        for (int window = thread / kTile; window < s.oh * s.ow; window += kLanes) {
          const int h = window / static_cast<int>(s.ow) * s.stride[0] + down;
          const int w = window % static_cast<int>(s.ow) * s.stride[1] + right;
          if (h < 0 || h >= s.h || w < 0 || w >= s.w) continue;
          sum += widened(image[(h * s.w + w) * s.c]) * widened(outputs[window * s.o]);
        }
      }
      shared.part[thread / kTile][thread % kTile] = sum;
    });
    block.each([&](int thread) {
      if (thread >= kTile || left + thread >= s.o) return;
      float sum = 0;
      for (int lane = 0; lane < kLanes; ++lane) sum += shared.part[lane][thread];
      to[(part * s.o + left + thread) * taps + tap] = sum;
    });
  }
};

/// One convolution, by cuDNN, by products of matrices or by the depthwise kernels.
template <class T>
class Conv {
 public:
  Conv(const Tensor& x, const Tensor& weight, const Attrs& attrs)
      : s_(conv2d_shape(x.shape(), weight.shape(), attrs.as<Conv2dAttrs>())),
        folding_(cuda::folding_of(s_, cuda::kPackWidth<T>)),
        weight_(weight) {}

  void forward(const Tensor& x, const Tensor& bias, const Tensor& y, Activation activation) const {
    if (is_depthwise()) {
      depthwise(x, bias, y);
    } else {
      const Tensor weights = weight_rows();
      const Tensor images = library_images(x),
                   filters = library_weights(weights);  // kept until the work is in the stream
      cuda::Convolution convolution = pass(cuda::ConvPass::kForward, images, filters, y);
      convolution.bias = bias.defined() ? bias.raw() : nullptr;
      convolution.relu = true;
      if (activation == Activation::kRelu && cuda::convolve(convolution)) return;
      convolution.relu = false;
      if (!by_library(convolution, bias, y)) by_products(x, weights, bias, y);
    }
    cuda::activate(activation, y, y);
  }

  void image_gradient(const Tensor& grad, const Tensor& grad_x) const {
    if (is_depthwise()) {
      return each_chunk(s_, chunk_images(s_, 1, cuda::kMostElements),
                        [&](int64_t first, const Conv2dShape& s) {
                          const int64_t elements = s.n * image_elements(s);
                          launch(DepthwiseImageGradient<T>{output(grad, first), elements_of<T>(weight_),
                                                           image(grad_x, first), s, filters(), elements},
                                 blocks_for(elements, DepthwiseImageGradient<T>::kThreads));
                        });
    }
    const Tensor weights = weight_rows();
    if (cuda::convolve(pass(cuda::ConvPass::kImageGradient, grad_x, weights, grad))) return;
    const auto multiply = [&](int64_t first, const Conv2dShape& s, void* to, DType dtype) {
      cuda::gemm(rows(s), columns(), s.o_group(), {output(grad, first), s.o, false, s.o_group()},
                 {weights.raw(), columns(), false, s.o_group() * columns()},
                 {to, s.groups * columns(), columns(), dtype}, grad.dtype(), s.groups);
    };
    if (windows_are_pixels()) return multiply(0, s_, grad_x.raw(), grad_x.dtype());
    const int64_t images = window_images(sizeof(float));
    const Tensor windows = Tensor::empty({{images, window_elements(s_)}, DType::kF32}, grad.device());
    each_chunk(s_, images, [&](int64_t first, const Conv2dShape& s) {
      multiply(first, s, windows.raw(), DType::kF32);
      const int64_t elements = s.n * image_elements(s);
      launch(cuda::Col2im<T>{windows.data<float>(), image(grad_x, first), s, s.c_group(), elements},
             blocks_for(elements, cuda::Col2im<T>::kThreads));
    });
  }

  void weight_gradient(const Tensor& x, const Tensor& grad, const Tensor& grad_weight) const {
    if (is_depthwise()) return depthwise_weight_gradient(x, grad, grad_weight);
    if (library_weight_gradient(x, grad, grad_weight)) return;
    const Tensor sum = Tensor::empty({{s_.o, columns()}, DType::kF32}, x.device());
    cuda::zero(sum);
    each_window_matrix(x, [&](int64_t first, const Conv2dShape& s, const T* windows) {
      cuda::gemm(s.o_group(), columns(), rows(s), {output(grad, first), s.o, true, s.o_group()},
                 {windows, s.groups * columns(), false, columns()},
                 {sum.raw(), columns(), s.o_group() * columns(), DType::kF32, true}, x.dtype(), s.groups);
    });
    cuda::transpose_matrices<float, T>(sum, grad_weight, s_.kh * s_.kw, s_.c_group());
  }

  void bias_gradient(const Tensor& grad, const Tensor& grad_bias) const {
    cuda::sum_axes<T, T>(grad, bit(3) - 1, 1.0f, grad_bias);
  }

 private:
  void depthwise(const Tensor& x, const Tensor& bias, const Tensor& y) const {
    each_chunk(s_, chunk_images(s_, 1, cuda::kMostElements), [&](int64_t first, const Conv2dShape& s) {
      const int64_t elements = s.n * output_elements(s);
      launch(DepthwiseConv<T>{image(x, first), elements_of<T>(weight_),
                              bias.defined() ? elements_of<T>(bias) : nullptr, output(y, first), s, filters(),
                              elements},
             blocks_for(elements, DepthwiseConv<T>::kThreads));
    });
  }

  /// Returns whether cuDNN computed it. If not, the outputs now contain the bias.
  bool by_library(cuda::Convolution convolution, const Tensor& bias, const Tensor& y) const {
    if (bias.defined()) {
      if (cuda::convolve(convolution)) return true;
      convolution.bias = nullptr;
      convolution.accumulate = true;
      cuda::fill_rows<T>(bias, y);
    }
    return cuda::convolve(convolution);
  }

  /// `weights` is weight_rows(). If cublasLt supports the bias, it is added before the sums are rounded.
  void by_products(const Tensor& x, const Tensor& weights, const Tensor& bias, const Tensor& y) const {
    each_window_matrix(x, [&](int64_t first, const Conv2dShape& s, const T* windows) {
      const cuda::GemmMatrix of_windows = {windows, s.groups * columns(), false, columns()};
      const cuda::GemmMatrix of_weights = {weights.raw(), columns(), true, s.o_group() * columns()};
      cuda::GemmResult to = {output(y, first), s.o, s.o_group(), y.dtype()};
      if (bias.defined() && s.groups == 1 &&
          cuda::gemm_with(cuda::GemmEpilogue::kBias, bias.raw(), rows(s), s.o, columns(), of_windows,
                          of_weights, to, y.dtype()))
        return;
      to.accumulate = bias.defined();
      cuda::gemm(rows(s), s.o_group(), columns(), of_windows, of_weights, to, y.dtype(), s.groups);
    });
  }

  bool is_depthwise() const { return s_.groups == s_.c && s_.groups > 1; }
  int filters() const { return static_cast<int>(s_.o_group()); }
  int64_t columns() const { return s_.kh * s_.kw * s_.c_group(); }
  static int64_t rows(const Conv2dShape& s) { return s.n * s.oh * s.ow; }
  T* image(const Tensor& images, int64_t n) const { return elements_to<T>(images) + n * image_elements(s_); }
  T* output(const Tensor& outputs, int64_t n) const {
    return elements_to<T>(outputs) + n * output_elements(s_);
  }

  /// Whether filters are 1x1 and read every pixel. The images then are the matrix of windows.
  bool windows_are_pixels() const {
    return s_.kh * s_.kw == 1 && s_.stride[0] * s_.stride[1] == 1 && s_.padding[0] + s_.padding[1] == 0;
  }
  int64_t window_images(size_t element_bytes) const {
    return chunk_images(s_, window_elements(s_), kWindowBytes / static_cast<int64_t>(element_bytes));
  }

  /// The weights as rows [O, KH*KW*C/G].
  Tensor weight_rows() const {
    if (s_.kh * s_.kw == 1) return weight_;
    const Tensor weights = Tensor::empty({{s_.o, columns()}, weight_.dtype()}, weight_.device());
    cuda::transpose_matrices<T, T>(weight_, weights, s_.c_group(), s_.kh * s_.kw);
    return weights;
  }

  /// Whether cuDNN gets folded images and weights. With three channels, its kernels would take several times as long.
  bool is_folded() const {
    return sizeof(T) < sizeof(float) && s_.groups == 1 && s_.c < cuda::kPackWidth<T> &&
           cuda::has_convolutions();
  }
  cuda::Pixels pixels(int64_t count, int64_t height, int64_t width) const {
    return {count, static_cast<int>(height), static_cast<int>(width), static_cast<int>(s_.c)};
  }
  /// The images in the form that cuDNN gets.
  Tensor library_images(const Tensor& x) const {
    const Conv2dShape& to = folding_.shape;
    if (!is_folded()) return x;
    return folded(x, pixels(s_.n, s_.h, s_.w), folding_.top, folding_.left, to.h, to.w);
  }
  /// The weights in the form that cuDNN gets. `rows`: weight_rows().
  Tensor library_weights(const Tensor& rows) const {
    const Conv2dShape& to = folding_.shape;
    if (!is_folded()) return rows;
    return folded(rows, pixels(s_.o, s_.kh, s_.kw), folding_.weights_top, folding_.weights_left, to.kh,
                  to.kw);
  }
  Tensor folded(const Tensor& from, const cuda::Pixels& of, int top, int left, int64_t height,
                int64_t width) const {
    const int64_t channels = folding_.shape.c;
    const Tensor to = Tensor::empty({{of.count, height, width, channels}, from.dtype()}, from.device());
    if constexpr (sizeof(T) < sizeof(float)) {
      const auto fold = [&](auto folds) {
        const cuda::FoldPixels<T, folds> kernel{elements_of<T>(from),
                                                static_cast<cuda::Pack<T>*>(to.raw()),
                                                of,
                                                top,
                                                left,
                                                static_cast<int>(height),
                                                static_cast<int>(width),
                                                static_cast<int>(channels / cuda::kPackWidth<T>)};
        launch(kernel, blocks_for(kernel.threads(), kernel.kThreads));
      };
      if (folding_.fold == 2) {
        fold(std::integral_constant<int, 2>());
      } else {
        fold(std::integral_constant<int, 1>());
      }
    }
    return to;
  }
  void unfold_weights(const Tensor& from, const Tensor& rows) const {
    if constexpr (sizeof(T) < sizeof(float)) {
      const Conv2dShape& s = folding_.shape;
      const cuda::UnfoldPixels<T> kernel{
          elements_of<T>(from),   elements_to<T>(rows),   pixels(s_.o, s_.kh, s_.kw),
          folding_.fold,          folding_.weights_top,   folding_.weights_left,
          static_cast<int>(s.kh), static_cast<int>(s.kw), static_cast<int>(s.c)};
      launch(kernel, blocks_for(kernel.threads(), kernel.kThreads));
    }
  }

  /// Forward and weight gradient: images and weights have (or will have) the form of library_images() and library_weights().
  cuda::Convolution pass(cuda::ConvPass pass, const Tensor& images, const Tensor& weights,
                         const Tensor& outputs) const {
    const bool takes_folded = pass != cuda::ConvPass::kImageGradient && is_folded();
    return {pass,         takes_folded ? folding_.shape : s_, weight_.dtype(), images.raw(), weights.raw(),
            outputs.raw()};
  }
  bool library_weight_gradient(const Tensor& x, const Tensor& grad, const Tensor& grad_weight) const {
    const auto new_rows = [&](const Conv2dShape& s) {
      return Tensor::empty({{s.o, s.kh * s.kw * s.c_group()}, grad_weight.dtype()}, x.device());
    };
    const bool in_place = s_.kh * s_.kw == 1;  // weight_rows() doesn't copy
    const Tensor rows = in_place ? grad_weight : new_rows(s_);
    const Tensor to = is_folded() ? new_rows(folding_.shape) : rows;
    const Tensor images = library_images(x);
    if (!cuda::convolve(pass(cuda::ConvPass::kWeightGradient, images, to, grad))) return false;
    if (is_folded()) unfold_weights(to, rows);
    if (!in_place) cuda::transpose_matrices<T, T>(rows, grad_weight, s_.kh * s_.kw, s_.c_group());
    return true;
  }

  /// Calls use(first image, the convolution of a chunk of images, their windows) for each chunk.
  template <class Use>
  void each_window_matrix(const Tensor& x, const Use& use) const {
    if (windows_are_pixels()) return use(0, s_, image(x, 0));
    const int64_t images = window_images(sizeof(T));
    const Tensor windows = Tensor::empty({{images, window_elements(s_)}, x.dtype()}, x.device());
    const bool in_packs = s_.c_group() % cuda::kPackWidth<T> == 0 && cuda::is_pack_aligned(x.raw());
    each_chunk(s_, images, [&](int64_t first, const Conv2dShape& s) {
      if (in_packs) {
        copy_windows<cuda::Pack<T>>(image(x, first), s, cuda::kPackWidth<T>, windows);
      } else {
        copy_windows<T>(image(x, first), s, 1, windows);
      }
      use(first, s, elements_of<T>(windows));
    });
  }
  template <class Unit>
  static void copy_windows(const T* images, Conv2dShape s, int unit, const Tensor& windows) {
    s.c /= unit;
    const int64_t units = s.n * window_elements(s);
    launch(cuda::Im2col<Unit>{reinterpret_cast<const Unit*>(images), static_cast<Unit*>(windows.raw()), s,
                              s.c_group(), units},
           blocks_for(units, cuda::Im2col<Unit>::kThreads));
  }

  void depthwise_weight_gradient(const Tensor& x, const Tensor& grad, const Tensor& grad_weight) const {
    using Kernel = DepthwiseWeightGradient<T>;
    const int64_t chunk = std::max<int64_t>(1, blocks_for(s_.n, 64));
    const int64_t chunks = blocks_for(s_.n, chunk);
    const Tensor parts = Tensor::empty({{chunks, s_.weights()}, DType::kF32}, x.device());
    launch(Kernel{image(x, 0), output(grad, 0), parts.data<float>(), s_, filters(), chunk},
           chunks * s_.kh * s_.kw * blocks_for(s_.o, Kernel::kTile));
    cuda::sum_columns(static_cast<const float*>(parts.data<float>()), chunks, s_.weights(), 1.0f,
                      elements_to<T>(grad_weight), x.device());
  }

  Conv2dShape s_;
  cuda::Folding folding_;
  Tensor weight_;
};

void forward(const ForwardArgs& args) {
  const Tensor bias = has_input(args.inputs, 2) ? args.inputs[2] : Tensor();
  cuda::stored(args.inputs[0].dtype(), [&](auto type) {
    Conv<decltype(type)>(args.inputs[0], args.inputs[1], args.attrs)
        .forward(args.inputs[0], bias, args.outputs[0], args.attrs.as<Conv2dAttrs>().activation);
  });
}

void backward(const BackwardArgs& args) {
  const Tensor& grad = args.grad_outputs[0];
  cuda::stored(grad.dtype(), [&](auto type) {
    const Conv<decltype(type)> conv(args.inputs[0], args.inputs[1], args.attrs);
    if (has_input(args.grad_inputs, 0)) conv.image_gradient(grad, args.grad_inputs[0]);
    if (has_input(args.grad_inputs, 1)) conv.weight_gradient(args.inputs[0], grad, args.grad_inputs[1]);
    if (has_input(args.grad_inputs, 2)) conv.bias_gradient(grad, args.grad_inputs[2]);
  });
}

/// The elements of one image's windows must be numbered in 32 bits.
bool supports(std::span<const TensorSpec> inputs, const Attrs& attrs) {
  const Conv2dShape s = conv2d_shape(inputs[0].shape, inputs[1].shape, attrs.as<Conv2dAttrs>());
  return cuda::supports_stored(inputs.first(2), attrs) &&
         std::max({image_elements(s), output_elements(s), window_elements(s)}) <= cuda::kMostElements;
}

}  // namespace

DLPIPE_CUDA_KERNELS(conv2d) = {forward, backward, supports, nullptr, cuda::fused_kernels<Conv2dAttrs>};

extern const Kernels DLPIPE_CUDA_KERNELS_OF(conv2d);

DLPIPE_CUDA_KERNELS(conv_transpose2d) = {ConvTransposeKernels<DLPIPE_CUDA_KERNELS_OF(conv2d)>::forward,
                                         ConvTransposeKernels<DLPIPE_CUDA_KERNELS_OF(conv2d)>::backward,
                                         ConvTransposeKernels<DLPIPE_CUDA_KERNELS_OF(conv2d)>::supports};

}  // namespace dlpipe::engine
