#include "dlpipe/engine/cpu/conv/conv2d_pointwise.h"

#include <algorithm>
#include <cstring>

#include "dlpipe/engine/core/constant_cache.h"
#include "dlpipe/engine/core/parallel.h"
#include "dlpipe/engine/cpu/conv/pointwise_kernels.h"
#include "dlpipe/engine/cpu/elementwise/activation.h"
#include "dlpipe/engine/cpu/gemm/block_product.h"

namespace dlpipe::engine::cpu {
namespace {

// Of a part of an image, at least, where several slices share it.
constexpr int64_t kPixelsAPart = 48;

constexpr int kWindowsSlot = 1;  // of worker_scratch; 0 is oneDNN's

/// Weights as the kernel reads them. forward: of OIHW, tap after tap, else backward, which sums over the outputs of OI.
Tensor panels_of(const Tensor& weight, bool forward) {
  const int64_t lanes = pointwise_kernels().lanes, inputs = weight.size(1), taps = weight.size(2) * weight.size(3);
  const int64_t terms = forward ? taps * inputs : weight.size(0), columns = forward ? weight.size(0) : inputs;
  const int64_t width = kPointwisePanel * lanes;
  Tensor panels = Tensor::empty({columns * terms});
  parallel_slices(divide_up(columns, width), [&](int64_t panel) {
    const int64_t first = panel * width, count = std::min(width, columns - first);
    float* const to = panels.data<float>() + first * terms;
    const float* const from = weight.data<float>();
    if (forward && taps == 1) return block_product().transpose(from + first * inputs, inputs, count, terms, to, count);
    if (forward) {
      for (int64_t tap = 0; tap < taps; ++tap)
        for (int64_t c = 0; c < inputs; ++c)
          for (int64_t o = 0; o < count; ++o) to[(tap * inputs + c) * count + o] = from[((first + o) * inputs + c) * taps + tap];
      return;
    }
    for (int64_t k = 0; k < terms; ++k) std::copy_n(from + k * inputs + first, count, to + k * count);
  });
  return panels;
}

bool reads_in_place(const Conv2dShape& s) {
  return s.kh == 1 && s.kw == 1 && s.stride == std::array{1, 1} && s.padding == std::array{0, 0};
}

/// What output pixels [begin, end) read of image x, as blocks: tap after tap, in each block after block.
void copy_windows(const Conv2dShape& s, const float* x, int64_t begin, int64_t end, float* to) {
  const int64_t lanes = pointwise_kernels().lanes;
  for (int64_t ky = 0; ky < s.kh; ++ky) {
    for (int64_t kx = 0; kx < s.kw; ++kx) {
      for (int64_t block = 0; block < s.c / lanes; ++block) {
        const float* const plane = x + block * s.h * s.w * lanes;
        int64_t oy = begin / s.ow, ox = begin % s.ow;
        for (int64_t pixel = begin; pixel < end; ++pixel, to += lanes) {
          const int64_t y = oy * s.stride[0] - s.padding[0] + ky * s.dilation[0], at = ox * s.stride[1] - s.padding[1] + kx * s.dilation[1];
          if (y >= 0 && y < s.h && at >= 0 && at < s.w) {
            std::memcpy(to, plane + (y * s.w + at) * lanes, static_cast<size_t>(lanes) * sizeof(float));
          } else {
            std::fill_n(to, lanes, 0.0f);
          }
          if (++ox == s.ow) ox = 0, ++oy;
        }
      }
    }
  }
}

/// x's blocks to y's, `pixels` of each image.
struct Images {
  const Tensor &x, &y;
  int64_t pixels;
  const Conv2dShape* windows = nullptr;
};

void multiply(const Images& images, const KernelChoice& choice, const Tensor& panels, const float* bias,
              Activation activation) {
  const int64_t lanes = pointwise_kernels().lanes, pixels = images.pixels;
  const int64_t count = images.x.size(0), out = images.y.size(3);
  const int64_t terms = panels.elements() / out;
  const int64_t in_image = images.x.elements() / count;
  const int64_t out_panels = divide_up(out, kPointwisePanel * lanes);
  const int64_t down = std::clamp<int64_t>(pixels / kPixelsAPart, 1, choice.parts);
  const int64_t across = std::min({choice.parts / down, out_panels, divide_up(engine_threads(), divide_up(count, choice.images) * down)});
  parallel_slices(divide_up(count, choice.images) * down * across, [&](int64_t slice) {
    const int64_t part = slice / across % down, piece = slice % across;
    const int64_t first = slice / (down * across) * choice.images,
                  last = std::min(count, first + choice.images);
    const int64_t begin = pixels * part / down, end = pixels * (part + 1) / down;
    PointwiseProduct p;
    p.x_plane = p.y_plane = pixels * lanes;
    p.in_blocks = terms / lanes;
    float* scratch = nullptr;
    if (images.windows != nullptr) {
      p.x_plane = (end - begin) * lanes;
      scratch = reinterpret_cast<float*>(worker_scratch(kWindowsSlot, static_cast<size_t>((end - begin) * terms) * sizeof(float)));
    }
    p.weights = panels.data<float>();
    p.bias = bias;
    p.first_block = out_panels * piece / across * kPointwisePanel;
    p.last_block = std::min(out / lanes, out_panels * (piece + 1) / across * kPointwisePanel);
    p.pixels = end - begin;
    p.relu = activation == Activation::kRelu;
    for (int64_t n = first; n < last; ++n) {
      const float* const x = static_cast<const float*>(images.x.raw()) + n * in_image;
      p.x = x + begin * lanes;
      if (scratch != nullptr) {
        copy_windows(*images.windows, x, begin, end, scratch);
        p.x = scratch;
      }
      p.y = static_cast<float*>(images.y.raw()) + n * pixels * out + begin * lanes;
      pointwise_kernels().product(p);
      if (p.relu || activation == Activation::kNone) continue;
      float* const y = p.y + p.first_block * p.y_plane;
      activate_rows(activation, DType::kF32, y, y, p.last_block - p.first_block, p.pixels * lanes, p.y_plane);
    }
  });
}

uint64_t form(bool forward) {
  return static_cast<uint64_t>(ConstantForm::kPointwise) + (forward ? 0 : 1);
}

}  // namespace

int64_t pointwise_block() {
  return kernel_isa() < KernelIsa::kAvx2 ? 0 : pointwise_kernels().lanes;
}

bool pointwise_fits(const Conv2dShape& s) {
  const int64_t block = pointwise_block();
  return block != 0 && s.groups == 1 && s.c % block == 0 && s.o % block == 0;
}

void pointwise_forward(const Conv2dShape& s, const KernelChoice& choice, const Tensor& x,
                       const Tensor& weight, const Tensor& bias, const Tensor& y, Activation activation) {
  const Tensor panels = cached_or(weight, form(true), [&] { return panels_of(weight, true); });
  multiply({x, y, s.oh * s.ow, reads_in_place(s) ? nullptr : &s}, choice, panels, bias.defined() ? bias.data<float>() : nullptr, activation);
}

void pointwise_backward_data(const Conv2dShape& s, const KernelChoice& choice, const Tensor& dy,
                             const Tensor& weight, const Tensor& dx) {
  const Tensor panels = cached_or(weight, form(false), [&] { return panels_of(weight, false); });
  multiply({dy, dx, s.oh * s.ow}, choice, panels, nullptr, Activation::kNone);
}

}  // namespace dlpipe::engine::cpu
