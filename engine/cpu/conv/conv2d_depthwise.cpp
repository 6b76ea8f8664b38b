// First the inner loops in Highway, once per target, then how slices share the channels and images.
#include "engine/cpu/conv/conv2d_depthwise.h"

#include <algorithm>
#include <array>

#include "engine/core/parallel.h"
#include "engine/cpu/loops/elementwise.h"

// Sums stay in registers, in arrays of vectors. SVE and RVV are excluded because their vectors can't be in arrays.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/cpu/conv/conv2d_depthwise.cpp"
#include <hwy/foreach_target.h>  // NOLINT: includes this file once per target

#include <hwy/highway.h>

#include "engine/cpu/loops/within_isa.h"

HWY_BEFORE_NAMESPACE();
namespace dlpipe::engine::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using PlaneD = hn::CappedTag<float, 16>;
using PlaneV = hn::Vec<PlaneD>;

// The number of taps with sums in registers at a time. For up to kTapsOfPairs taps, even and odd columns have separate
// sums, because one chain of additions per tap would leave the adders idle.
constexpr int kTapsTogether = 8, kTapsOfPairs = 5;
// Outputs per group of rows. A group is read from the first-level cache once per row of taps, and its sums are added to
// those of the other groups. So rounding errors grow with the square root of the number of terms, not with the number.
constexpr int64_t kOutputsTogether = 64;

template <int K>
HWY_NOINLINE void add_taps(const DepthwiseSums& p, const float* x, const float* dy, int64_t rows, float* to) {
  constexpr int kChains = K <= kTapsOfPairs ? 2 : 1;
  const PlaneD d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  PlaneV sums[kChains][K];
#pragma GCC unroll 8
  for (int k = 0; k < K; ++k) {
    sums[0][k] = hn::Zero(d);
    if constexpr (kChains > 1) sums[1][k] = hn::Zero(d);
  }
  const auto add = [&](PlaneV(&chain)[K], const float* from, const float* gradient) HWY_ATTR {
    const PlaneV factor = hn::LoadU(d, gradient);
#pragma GCC unroll 8
    for (int k = 0; k < K; ++k)
      chain[k] = hn::MulAdd(hn::LoadU(d, from + k * p.tap_column), factor, chain[k]);
  };
  for (int64_t row = 0; row < rows; ++row) {
    const float* from = x + row * p.x_row;
    const float* gradient = dy + row * p.columns * lanes;
    int64_t column = 0;
    if constexpr (kChains > 1) {
      for (; column + 2 <= p.columns; column += 2, from += 2 * p.x_column, gradient += 2 * lanes) {
        add(sums[0], from, gradient);
        add(sums[1], from + p.x_column, gradient + lanes);
      }
    }
    for (; column < p.columns; ++column, from += p.x_column, gradient += lanes) add(sums[0], from, gradient);
  }
#pragma GCC unroll 8
  for (int k = 0; k < K; ++k) {
    if constexpr (kChains > 1) sums[0][k] = hn::Add(sums[0][k], sums[1][k]);
    hn::StoreU(hn::Add(hn::LoadU(d, to + k * lanes), sums[0][k]), d, to + k * lanes);
  }
}

template <int K>
HWY_INLINE void add_taps_of(int64_t taps, const DepthwiseSums& p, const float* x, const float* dy,
                            int64_t rows, float* to) {
  if (taps == K) return add_taps<K>(p, x, dy, rows, to);
  if constexpr (K > 1) add_taps_of<K - 1>(taps, p, x, dy, rows, to);
}

void AddDepthwise(const DepthwiseSums& p) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(PlaneD()));
  const int64_t rows = std::max<int64_t>(1, kOutputsTogether / p.columns);
  for (int64_t row = 0; row < p.rows; row += rows) {
    for (int64_t ky = 0; ky < p.kh; ++ky) {
      for (int64_t kx = 0; kx < p.kw; kx += kTapsTogether) {
        add_taps_of<kTapsTogether>(std::min<int64_t>(kTapsTogether, p.kw - kx), p,
                                   p.x + row * p.x_row + ky * p.tap_row + kx * p.tap_column,
                                   p.dy + row * p.columns * lanes, std::min(rows, p.rows - row),
                                   p.sums + (ky * p.kw + kx) * lanes);
      }
    }
  }
}

const DepthwiseKernels* KernelsOfDepthwise() {
  static const DepthwiseKernels kernels = {static_cast<int64_t>(hn::Lanes(PlaneD())), AddDepthwise};
  return &kernels;
}

}  // namespace HWY_NAMESPACE
}  // namespace dlpipe::engine::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dlpipe::engine::cpu {

HWY_EXPORT(KernelsOfDepthwise);

const DepthwiseKernels& depthwise_kernels() {
  return *dispatch_within_isa(HWY_DISPATCH_TABLE(KernelsOfDepthwise))();
}

namespace {

constexpr int kPlanesSlot = 1;  // of worker_scratch; 0 is oneDNN's
// Slices are vectors of channels. If there are fewer channels than this, slices are also groups of images.
constexpr int64_t kChannelsOfOneGroup = 512;
constexpr size_t kMostLanes = 16;
constexpr int64_t kPixelsAtOnce = 1 << 14;  // of x and dy: 1 MiB for 16 channels

/// Copies `lanes` channels from `channel` on of `count` pixels, pixel after pixel. Lanes after the last channel have arbitrary
/// values.
void copy_pixels(const Tensor& images, int64_t n, int64_t channel, int64_t lanes, int64_t first,
                 int64_t count, float* to) {
  const int64_t channels = images.size(3), pixels = images.size(1) * images.size(2);
  const int64_t image = n * pixels * channels;
  if (images.layout() != Layout::kPlain) {
    const int64_t block = layout_block(images.layout()), width = std::min(block, lanes);
    for (int64_t lane = 0; lane < lanes; lane += width) {
      const int64_t c = channel + lane;
      if (c >= channels) break;  // the last vector is wider than the blocks that are left: any values
      const float* from = static_cast<const float*>(images.raw()) + image + c / block * block * pixels +
                          c % block + first * block;
      for (int64_t i = 0; i < count; ++i) std::copy_n(from + i * block, width, to + i * lanes + lane);
    }
    return;
  }
  const int64_t own = std::min(lanes, channels - channel);
  with_type(images.dtype(), [&](auto type) {
    const auto* from = static_cast<const decltype(type)*>(images.raw()) + image + first * channels + channel;
    for (int64_t i = 0; i < count; ++i, from += channels, to += lanes) {
      for (int64_t lane = 0; lane < own; ++lane) to[lane] = load_one(from + lane);
    }
  });
}

class DepthwiseGradient {
 public:
  DepthwiseGradient(const Conv2dShape& shape, const Tensor& x, const Tensor& dy)
      : s_(shape),
        x_(x),
        dy_(dy),
        blocks_(divide_up(s_.c, lanes_)),
        groups_(std::clamp(divide_up(kChannelsOfOneGroup, s_.c), int64_t{1}, s_.n)) {
    sums_ = Tensor::zeros({groups_, blocks_, taps_ + 1, lanes_});
  }

  void run(float* dweight, float* dbias) const {
    auto* const sums = sums_.data<float>();
    parallel_slices(groups_ * blocks_, [&](int64_t slice) {
      const int64_t group = slice / blocks_;
      add(slice % blocks_, s_.n * group / groups_, s_.n * (group + 1) / groups_, dbias != nullptr,
          sums + slice * (taps_ + 1) * lanes_);
    });
    for (int64_t c = 0; c < s_.c; ++c) {
      for (int64_t tap = 0; tap <= taps_; ++tap) {
        float sum = 0;
        for (int64_t group = 0; group < groups_; ++group)
          sum += sums[((group * blocks_ + c / lanes_) * (taps_ + 1) + tap) * lanes_ + c % lanes_];
        if (tap < taps_) dweight[c * taps_ + tap] = sum;
        if (tap == taps_ && dbias != nullptr) dbias[c] = sum;
      }
    }
  }

 private:
  /// Adds the sums over images [first, last) for one vector of channels: a sum per tap, then the sum of dy.
  void add(int64_t block, int64_t first, int64_t last, bool bias, float* sums) const {
    const int64_t most = rows_at_once();
    const int64_t floats = (rows_of(most) * width_ + most * s_.ow) * lanes_;
    auto* const x =
        reinterpret_cast<float*>(worker_scratch(kPlanesSlot, static_cast<size_t>(floats) * sizeof(float)));
    float* const dy = x + rows_of(most) * width_ * lanes_;
    DepthwiseSums p;
    p.x = x;
    p.x_row = s_.stride[0] * width_ * lanes_, p.x_column = s_.stride[1] * lanes_;
    p.tap_row = s_.dilation[0] * width_ * lanes_, p.tap_column = s_.dilation[1] * lanes_;
    p.dy = dy;
    p.columns = s_.ow;
    p.kh = s_.kh, p.kw = s_.kw;
    p.sums = sums;
    for (int64_t n = first; n < last; ++n) {
      for (int64_t row = 0; row < s_.oh; row += most) {
        p.rows = std::min(most, s_.oh - row);
        copy_padded(n, block, row * s_.stride[0] - s_.padding[0], rows_of(p.rows), x);
        copy_pixels(dy_, n, block * lanes_, lanes_, row * s_.ow, p.rows * s_.ow, dy);
        depthwise_kernels().add(p);
        for (int64_t i = 0; bias && i < p.rows; ++i) add_row(dy + i * s_.ow * lanes_, sums + taps_ * lanes_);
      }
    }
  }

  void add_row(const float* dy, float* sums) const {
    std::array<float, kMostLanes> row{};
    for (int64_t i = 0; i < s_.ow; ++i) {
      for (int64_t lane = 0; lane < lanes_; ++lane) row[static_cast<size_t>(lane)] += dy[i * lanes_ + lane];
    }
    for (int64_t lane = 0; lane < lanes_; ++lane) sums[lane] += row[static_cast<size_t>(lane)];
  }

  /// The number of output rows whose planes stay in the second-level cache; the same for all vector widths.
  int64_t rows_at_once() const {
    return std::clamp(kPixelsAtOnce / (s_.stride[0] * width_ + s_.ow), int64_t{1}, s_.oh);
  }
  /// The number of image rows that `rows` output rows read.
  int64_t rows_of(int64_t rows) const { return (rows - 1) * s_.stride[0] + (s_.kh - 1) * s_.dilation[0] + 1; }

  /// Copies rows of the image from `top` on, with the padding.
  void copy_padded(int64_t n, int64_t block, int64_t top, int64_t rows, float* to) const {
    const int64_t left = std::min<int64_t>(s_.padding[1], width_);
    const int64_t inside = std::clamp<int64_t>(width_ - left, 0, s_.w);
    std::fill_n(to, rows * width_ * lanes_, 0.0f);
    for (int64_t row = std::max<int64_t>(0, -top); row < std::min(rows, s_.h - top); ++row) {
      copy_pixels(x_, n, block * lanes_, lanes_, (top + row) * s_.w, inside,
                  to + (row * width_ + left) * lanes_);
    }
  }

  const Conv2dShape& s_;
  const Tensor &x_, &dy_;
  int64_t lanes_ = depthwise_kernels().lanes;
  int64_t taps_ = s_.kh * s_.kw;
  // The number of columns of the padded image that are read.
  int64_t width_ = (s_.ow - 1) * s_.stride[1] + (s_.kw - 1) * s_.dilation[1] + 1;
  int64_t blocks_, groups_;
  Tensor sums_;  // [group][block][tap, then dy][lane]
};

}  // namespace

bool depthwise_fits(const Conv2dShape& s) {
  return s.groups > 1 && s.groups == s.c && s.o == s.c;
}

void depthwise_backward_weights(const Conv2dShape& s, const Tensor& x, const Tensor& dy, float* dweight,
                                float* dbias) {
  DepthwiseGradient(s, x, dy).run(dweight, dbias);
}

}  // namespace dlpipe::engine::cpu
#endif
