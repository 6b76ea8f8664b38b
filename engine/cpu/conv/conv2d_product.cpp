// conv2d forward as our own product of pixels and weights (conv2d_product.h): its inner loops in Highway, once for each target,
// then how slices share the images.
#include "engine/cpu/conv/conv2d_product.h"

#include <algorithm>
#include <cstring>

#include "engine/core/constant_cache.h"
#include "engine/core/parallel.h"
#include "engine/cpu/gemm/block_product.h"
#include "engine/cpu/loops/activation.h"

// Sums stay in registers, in blocks of a size known at compile time, which excludes SVE and RVV.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/cpu/conv/conv2d_product.cpp"
#include <hwy/foreach_target.h>  // NOLINT: includes this file once a target

#include <hwy/highway.h>

#include "engine/cpu/loops/within_isa.h"

HWY_BEFORE_NAMESPACE();
namespace dlpipe::engine::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using PixelD = hn::ScalableTag<float>;
using PixelV = hn::Vec<PixelD>;

// The number of pixels whose sums fill the registers, together with a panel's vectors and one factor.
constexpr int kPixels = HWY_TARGET <= HWY_AVX3 ? 12 : 6;

// Pixels that the loops over blocks of channels read again and again stay in the second-level cache.
constexpr int64_t kChunkFloats = 1 << 16;
constexpr int64_t kFewestPixels = 4 * kPixels;

// R pixels of W blocks.
template <int R, int W>
HWY_NOINLINE void tile(const PixelProduct& p, const float* x, const float* weights, const float* bias,
                       float* y) {
  const PixelD d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  PixelV sums[R][W];
#pragma GCC unroll 16
  for (int w = 0; w < W; ++w) {
    const PixelV start = bias == nullptr ? hn::Zero(d) : hn::LoadU(d, bias + w * lanes);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) sums[r][w] = start;
  }
  for (int64_t block = 0; block < p.in_blocks; ++block, x += p.x_plane) {
    for (int64_t k = 0; k < lanes; ++k, weights += W * lanes) {
      PixelV columns[W];
#pragma GCC unroll 16
      for (int w = 0; w < W; ++w) columns[w] = hn::LoadU(d, weights + w * lanes);
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) {
        const PixelV factor = hn::Set(d, x[r * lanes + k]);
#pragma GCC unroll 16
        for (int w = 0; w < W; ++w) sums[r][w] = hn::MulAdd(factor, columns[w], sums[r][w]);
      }
    }
  }
  if (p.relu) {
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 16
      for (int w = 0; w < W; ++w)
        sums[r][w] = hn::Max(hn::Zero(d), sums[r][w]);  // NaN, the second, comes out
    }
  }
#pragma GCC unroll 16
  for (int w = 0; w < W; ++w) {
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) hn::StoreU(sums[r][w], d, y + w * p.y_plane + r * lanes);
  }
}

template <int R, int W>
HWY_INLINE void tile_of(int64_t pixels, const PixelProduct& p, const float* x, const float* weights,
                        const float* bias, float* y) {
  if (pixels == R) return tile<R, W>(p, x, weights, bias, y);
  if constexpr (R > 1) tile_of<R - 1, W>(pixels, p, x, weights, bias, y);
}

// Pixels [from, to) of W blocks, in groups as even as they can be.
template <int W>
HWY_NOINLINE void panel(const PixelProduct& p, int64_t block, int64_t from, int64_t to) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(PixelD()));
  const float* const weights = p.weights + block * lanes * p.in_blocks * lanes;
  const float* const bias = p.bias == nullptr ? nullptr : p.bias + block * lanes;
  float* const y = p.y + block * p.y_plane;
  const int64_t count = to - from, groups = (count + kPixels - 1) / kPixels;
  for (int64_t group = 0; group < groups; ++group) {
    const int64_t first = from + count * group / groups, last = from + count * (group + 1) / groups;
    tile_of<kPixels, W>(last - first, p, p.x + first * lanes, weights, bias, y + first * lanes);
  }
}

void ProductOfPixels(const PixelProduct& p) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(PixelD()));
  const int64_t most = std::max(kFewestPixels, kChunkFloats / (p.in_blocks * lanes));
  const int64_t chunks = (p.pixels + most - 1) / most;
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    const int64_t from = p.pixels * chunk / chunks, to = p.pixels * (chunk + 1) / chunks;
    int64_t block = p.first_block;
    for (; block + kPixelProductPanel <= p.last_block; block += kPixelProductPanel)
      panel<kPixelProductPanel>(p, block, from, to);
    if (block < p.last_block) panel<1>(p, block, from, to);
  }
}

const PixelProductKernels* KernelsOfPixels() {
  static const PixelProductKernels kernels = {static_cast<int64_t>(hn::Lanes(PixelD())), ProductOfPixels};
  return &kernels;
}

}  // namespace HWY_NAMESPACE
}  // namespace dlpipe::engine::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dlpipe::engine::cpu {

HWY_EXPORT(KernelsOfPixels);

const PixelProductKernels& pixel_product() {
  return *dispatch_within_isa(HWY_DISPATCH_TABLE(KernelsOfPixels))();
}

namespace {

constexpr int kWindowsSlot = 1;  // of worker_scratch; 0 is oneDNN's
// The minimum for a part of an image that several slices share.
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
#endif
