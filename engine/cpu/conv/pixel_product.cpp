#include "dlpipe/engine/cpu/conv/pixel_product.h"

#include <algorithm>

// Sums stay in registers, in blocks whose size is known when compiling: not so for SVE and RVV.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "dlpipe/engine/cpu/conv/pixel_product.cpp"
#include <hwy/foreach_target.h>  // NOLINT: includes this file once a target

#include <hwy/highway.h>

#include "dlpipe/engine/cpu/loops/within_isa.h"

HWY_BEFORE_NAMESPACE();
namespace dlpipe::engine::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using PixelD = hn::ScalableTag<float>;
using PixelV = hn::Vec<PixelD>;

// Pixels whose sums fill the registers, with a panel's vectors and one factor beside them.
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

}  // namespace dlpipe::engine::cpu
#endif
