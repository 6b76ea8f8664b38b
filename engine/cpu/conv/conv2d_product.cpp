#include "dlpipe/engine/cpu/conv/conv2d_product.h"

#include <algorithm>
#include <cstring>

#include "dlpipe/engine/core/constant_cache.h"
#include "dlpipe/engine/core/parallel.h"
#include "dlpipe/engine/cpu/conv/image_cut.h"
#include "dlpipe/engine/cpu/conv/pixel_product.h"
#include "dlpipe/engine/cpu/elementwise/activation.h"
#include "dlpipe/engine/cpu/gemm/block_product.h"

namespace dlpipe::engine::cpu {
namespace {

constexpr int kWindowsSlot = 1;  // of worker_scratch; 0 is oneDNN's
// Of a part of an image, at least, where several slices share it.
constexpr int64_t kPixelsAPart = 48;

/// OIHW weights as the kernel reads them: panel after panel, tap after tap, input after input.
Tensor panels_of(const Tensor& weight) {
  const int64_t outs = weight.size(0), inputs = weight.size(1), taps = weight.size(2) * weight.size(3);
  const int64_t width = kPixelProductPanel * pixel_product().lanes;
  Tensor panels = Tensor::empty({weight.elements()});
  parallel_slices(divide_up(outs, width), [&](int64_t panel) {
    const int64_t first = panel * width, count = std::min(width, outs - first);
    float* const to = panels.data<float>() + first * taps * inputs;
    const float* const rows = weight.data<float>() + first * inputs * taps;
    if (taps == 1) return block_product().transpose(rows, inputs, count, inputs, to, count);
    const auto values = static_cast<size_t>(taps * inputs * count);
    auto* const columns = reinterpret_cast<float*>(worker_scratch(kWindowsSlot, values * sizeof(float)));
    block_product().transpose(rows, inputs * taps, count, inputs * taps, columns, count);
    for (int64_t c = 0; c < inputs; ++c) {
      for (int64_t tap = 0; tap < taps; ++tap)
        std::copy_n(columns + (c * taps + tap) * count, count, to + (tap * inputs + c) * count);
    }
  });
  return panels;
}

/// One call: a slice is a part of the pixels and of the output channels of some images.
class ProductCall {
 public:
  ProductCall(const Conv2dShape& shape, const Tensor& x, const Tensor& panels, const Tensor& bias,
              const Tensor& y, Activation activation)
      : s_(shape),
        x_(static_cast<const float*>(x.raw())),
        y_(static_cast<float*>(y.raw())),
        panels_(panels.data<float>()),
        bias_(bias.defined() ? bias.data<float>() : nullptr),
        activation_(activation) {}

  void run(const KernelChoice& choice) const {
    const int64_t panel = kPixelProductPanel * lanes_;
    const ImageCut cut(choice, s_.n, pixels_, kPixelsAPart, divide_up(s_.o, panel));
    parallel_slices(cut.slices(), [&](int64_t slice) {
      const int64_t first = cut.group(slice) * choice.images;
      for (int64_t n = first; n < std::min(s_.n, first + choice.images); ++n)
        multiply(n, cut.positions(slice, pixels_), cut.channels(slice, s_.o, panel));
    });
  }

 private:
  void multiply(int64_t n, Range part, Range outs) const {
    const float* const image = x_ + n * s_.h * s_.w * s_.c;
    PixelProduct p;
    p.in_blocks = s_.kh * s_.kw * s_.c / lanes_;
    p.weights = panels_;
    p.bias = bias_;
    p.first_block = outs.begin / lanes_, p.last_block = outs.end / lanes_;
    p.y = y_ + n * pixels_ * s_.o + part.begin * lanes_;
    p.y_plane = pixels_ * lanes_;
    p.pixels = part.size();
    p.relu = activation_ == Activation::kRelu;
    if (is_pointwise(s_)) {
      p.x = image + part.begin * lanes_;
      p.x_plane = pixels_ * lanes_;
    } else {
      p.x = windows_of(image, part);
      p.x_plane = part.size() * lanes_;
    }
    pixel_product().run(p);
    if (p.relu) return;
    float* const y = p.y + p.first_block * p.y_plane;
    activate_rows(activation_, DType::kF32, y, y, p.last_block - p.first_block, p.pixels * lanes_, p.y_plane);
  }

  /// What some output pixels read, in this worker's scratch: tap after tap, in each block after block; zeros outside the image.
  const float* windows_of(const float* image, Range part) const {
    const int64_t taps = s_.kh * s_.kw, values = part.size() * taps * s_.c;
    auto* const windows =
        reinterpret_cast<float*>(worker_scratch(kWindowsSlot, static_cast<size_t>(values) * sizeof(float)));
    for (int64_t tap = 0; tap < taps; ++tap) {
      const int64_t top = tap / s_.kw * s_.dilation[0] - s_.padding[0];
      const int64_t left = tap % s_.kw * s_.dilation[1] - s_.padding[1];
      for (int64_t block = 0; block < s_.c / lanes_; ++block) {
        copy_tap(image + block * s_.h * s_.w * lanes_, part, top, left,
                 windows + (tap * s_.c + block * lanes_) * part.size());
      }
    }
    return windows;
  }

  void copy_tap(const float* plane, Range part, int64_t top, int64_t left, float* to) const {
    int64_t oy = part.begin / s_.ow, ox = part.begin % s_.ow;
    for (int64_t pixel = part.begin; pixel < part.end; ++pixel, to += lanes_) {
      const int64_t y = oy * s_.stride[0] + top, x = ox * s_.stride[1] + left;
      if (y >= 0 && y < s_.h && x >= 0 && x < s_.w) {
        std::memcpy(to, plane + (y * s_.w + x) * lanes_, static_cast<size_t>(lanes_) * sizeof(float));
      } else {
        std::fill_n(to, lanes_, 0.0f);
      }
      if (++ox < s_.ow) continue;
      ox = 0;
      ++oy;
    }
  }

  Conv2dShape s_;
  const float* x_;
  float* y_;
  const float *panels_, *bias_;
  Activation activation_;
  int64_t lanes_ = pixel_product().lanes;
  int64_t pixels_ = s_.oh * s_.ow;
};

}  // namespace

int64_t product_block() {
  return kernel_isa() < KernelIsa::kAvx2 ? 0 : pixel_product().lanes;
}

bool product_fits(const Conv2dShape& s) {
  const int64_t block = product_block();
  return block != 0 && s.groups == 1 && s.c % block == 0 && s.o % block == 0;
}

void product_forward(const Conv2dShape& s, const KernelChoice& choice, const Tensor& x, const Tensor& weight,
                     const Tensor& bias, const Tensor& y, Activation activation) {
  const Tensor panels = cached_or(weight, static_cast<uint64_t>(ConstantForm::kPixelProduct),
                                  [&] { return panels_of(weight); });
  ProductCall(s, x, panels, bias, y, activation).run(choice);
}

}  // namespace dlpipe::engine::cpu
