#include "dlpipe/augment/jpeg_kernels.h"

#include <algorithm>
#include <utility>

#include "dlpipe/augment/copy.h"
#include "dlpipe/augment/dct_kernels.h"
#include "dlpipe/base/coef_math.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "dlpipe/augment/jpeg_kernels.cpp"
#include <hwy/foreach_target.h>  // NOLINT: includes this file once a target

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace dlpipe::augment {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// Pixels taken apart and put together, three channels of a row at a time; others one by one.
void Split(const uint8_t* HWY_RESTRICT from, int width, int channels, uint8_t* const planes[3]) {
  size_t x = 0;
  const auto count = static_cast<size_t>(width);
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<uint8_t> d;
  for (; channels == 3 && x + hn::Lanes(d) <= count; x += hn::Lanes(d)) {
    hn::Vec<decltype(d)> r, g, b;
    hn::LoadInterleaved3(d, from + 3 * x, r, g, b);
    hn::StoreU(r, d, planes[0] + x);
    hn::StoreU(g, d, planes[1] + x);
    hn::StoreU(b, d, planes[2] + x);
  }
#endif
  for (; x < count; ++x) {
    for (size_t c = 0; c < 3; ++c) planes[c][x] = from[x * static_cast<size_t>(channels) + c];
  }
}

void Join(const uint8_t* const planes[3], int width, int channels, uint8_t* HWY_RESTRICT to) {
  size_t x = 0;
  const auto count = static_cast<size_t>(width);
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<uint8_t> d;
  for (; channels == 3 && x + hn::Lanes(d) <= count; x += hn::Lanes(d)) {
    hn::StoreInterleaved3(hn::LoadU(d, planes[0] + x), hn::LoadU(d, planes[1] + x),
                          hn::LoadU(d, planes[2] + x), d, to + 3 * x);
  }
#endif
  for (; x < count; ++x) {
    for (size_t c = 0; c < 3; ++c) to[x * static_cast<size_t>(channels) + c] = planes[c][x];
  }
}

constexpr int kFraction = 16;  // bits after the point of the colour conversions
constexpr int32_t kHalf = 1 << (kFraction - 1);

/// One row's luma and chroma at full size; what is right of the picture repeats its last pixel. `rgb` is to work with.
void RowToYcc(const uint8_t* from, int width, int channels, int padded, uint8_t* const rgb[3],
              uint8_t* HWY_RESTRICT luma, uint8_t* HWY_RESTRICT blue, uint8_t* HWY_RESTRICT red) {
  constexpr int32_t kMiddle = (128 << kFraction) + kHalf - 1;
  Split(from, width, channels, rgb);
  const uint8_t* HWY_RESTRICT rs = rgb[0];
  const uint8_t* HWY_RESTRICT gs = rgb[1];
  const uint8_t* HWY_RESTRICT bs = rgb[2];
  for (int x = 0; x < width; ++x) {
    const int32_t r = rs[x], g = gs[x], b = bs[x];
    luma[x] = static_cast<uint8_t>((19595 * r + 38470 * g + 7471 * b + kHalf) >> kFraction);
    blue[x] = static_cast<uint8_t>((-11059 * r - 21709 * g + 32768 * b + kMiddle) >> kFraction);
    red[x] = static_cast<uint8_t>((32768 * r - 27439 * g - 5329 * b + kMiddle) >> kFraction);
  }
  std::fill(luma + width, luma + padded, luma[width - 1]);
  std::fill(blue + width, blue + padded, blue[width - 1]);
  std::fill(red + width, red + padded, red[width - 1]);
}

/// Means of 2 x 2, rounded down and up by turns.
void Halve(const uint8_t* HWY_RESTRICT above, const uint8_t* HWY_RESTRICT below, int half,
           uint8_t* HWY_RESTRICT to) {
  for (int x = 0; x < half; ++x) {
    const int32_t sum = above[2 * x] + above[2 * x + 1] + below[2 * x] + below[2 * x + 1];
    to[x] = static_cast<uint8_t>((sum + 1 + (x & 1)) >> 2);
  }
}

/// A row of twice the width: 3/4 of the nearer row and column, 1/4 of the others. `sums` has room for half + 2.
void Widen(const uint8_t* HWY_RESTRICT nearer, const uint8_t* HWY_RESTRICT other, int half,
           int32_t* HWY_RESTRICT sums, uint8_t* HWY_RESTRICT to) {
  for (int x = 0; x < half; ++x) sums[x + 1] = coef::weighted(nearer[x], other[x]);
  sums[0] = sums[1];
  sums[half + 1] = sums[half];
  for (int x = 0; x < half; ++x) {
    to[2 * x] = coef::widened(sums[x + 1], sums[x], false, true);
    to[2 * x + 1] = coef::widened(sums[x + 1], sums[x + 2], true, true);
  }
}

void RowFromYcc(const uint8_t* HWY_RESTRICT luma, const uint8_t* HWY_RESTRICT blue,
                const uint8_t* HWY_RESTRICT red, int width, int channels, uint8_t* const rgb[3],
                uint8_t* to) {
  uint8_t* HWY_RESTRICT rs = rgb[0];
  uint8_t* HWY_RESTRICT gs = rgb[1];
  uint8_t* HWY_RESTRICT bs = rgb[2];
  for (int x = 0; x < width; ++x) {
    const coef::Rgb color = coef::ycc_to_rgb(luma[x], blue[x], red[x]);
    rs[x] = color.r;
    gs[x] = color.g;
    bs[x] = color.b;
  }
  Join(rgb, width, channels, to);
}

}  // namespace HWY_NAMESPACE
}  // namespace dlpipe::augment
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dlpipe::augment {

HWY_EXPORT(RowToYcc);
HWY_EXPORT(Halve);
HWY_EXPORT(Widen);
HWY_EXPORT(RowFromYcc);

namespace {

constexpr uint8_t kLuma[64] = {16, 11, 10, 16, 24,  40,  51,  61,  12, 12, 14, 19, 26,  58,  60,  55,
                               14, 13, 16, 24, 40,  57,  69,  56,  14, 17, 22, 29, 51,  87,  80,  62,
                               18, 22, 37, 56, 68,  109, 103, 77,  24, 35, 55, 64, 81,  104, 113, 92,
                               49, 64, 78, 87, 103, 121, 120, 101, 72, 92, 95, 98, 112, 100, 103, 99};
constexpr uint8_t kChroma[64] = {17, 18, 24, 47, 99, 99, 99, 99, 18, 21, 26, 66, 99, 99, 99, 99,
                                 24, 26, 56, 99, 99, 99, 99, 99, 47, 66, 99, 99, 99, 99, 99, 99,
                                 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99,
                                 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99};

int up_to(int value, int unit) {
  return (value + unit - 1) / unit * unit;
}

/// Rows from `filled` on repeat the last one.
void repeat_last_row(const BlockPlane& plane, int filled) {
  for (int y = filled; y < plane.height; ++y) std::copy_n(plane.row(filled - 1), plane.stride, plane.row(y));
}

/// The three components of one picture, and rows to work with.
struct Components {
  BlockPlane luma;
  BlockPlane chroma[2];
  uint8_t* rows[4];  // [luma.stride]
  uint8_t* rgb[3];   // [luma.stride]
  int32_t* sums;

  Components(int width, int height, std::vector<std::byte>& work) {
    const int across = up_to(width, kJpegUnit), down = up_to(height, kJpegUnit);
    const size_t whole = size_t(across) * size_t(down);
    const size_t sums_bytes = (size_t(across) / 2 + 2) * sizeof(int32_t);
    const size_t bytes = sums_bytes + whole + whole / 2 + 7 * size_t(across);
    if (work.size() < bytes) work.resize(bytes);
    sums = reinterpret_cast<int32_t*>(work.data());
    auto* next = reinterpret_cast<uint8_t*>(work.data() + sums_bytes);
    luma = {next, across, down};
    chroma[0] = {next + whole, across / 2, down / 2};
    chroma[1] = {next + whole + whole / 4, across / 2, down / 2};
    next += whole + whole / 2;
    for (uint8_t*& row : rows) row = std::exchange(next, next + across);
    for (uint8_t*& row : rgb) row = std::exchange(next, next + across);
  }
};

void take_apart(const ConstImageView& in, const Components& parts) {
  const int across = parts.luma.stride, half = across / 2;
  uint8_t* const* const rows = parts.rows;
  for (int y = 0; y < in.height; y += 2) {
    const int last = std::min(y + 1, in.height - 1);
    HWY_DYNAMIC_DISPATCH(RowToYcc)
    (in.row(y), in.width, in.channels, across, parts.rgb, parts.luma.row(y), rows[0], rows[1]);
    HWY_DYNAMIC_DISPATCH(RowToYcc)
    (in.row(last), in.width, in.channels, across, parts.rgb, parts.luma.row(y + 1), rows[2], rows[3]);
    HWY_DYNAMIC_DISPATCH(Halve)(rows[0], rows[2], half, parts.chroma[0].row(y / 2));
    HWY_DYNAMIC_DISPATCH(Halve)(rows[1], rows[3], half, parts.chroma[1].row(y / 2));
  }
  repeat_last_row(parts.luma, in.height);
  for (const BlockPlane& plane : parts.chroma) repeat_last_row(plane, (in.height + 1) / 2);
}

void put_together(const Components& parts, int width, int height, const Region& window, const ImageView& out,
                  bool is_narrow) {
  const int half = (width + 1) / 2, rows = (height + 1) / 2;
  for (int i = 0; i < window.height; ++i) {
    const int y = window.y + i;
    const int nearer = y / 2;
    const int other = std::clamp(y % 2 == 0 ? nearer - 1 : nearer + 1, 0, rows - 1);
    for (int c = 0; c < 2; ++c) {
      const BlockPlane& plane = parts.chroma[c];
      uint8_t* const to = parts.rows[c];
      if (!is_narrow) {
        HWY_DYNAMIC_DISPATCH(Widen)(plane.row(nearer), plane.row(other), half, parts.sums, to);
        continue;
      }
      for (int x = 0; x < width; ++x) to[x] = plane.row(nearer)[x / 2];
    }
    HWY_DYNAMIC_DISPATCH(RowFromYcc)
    (parts.luma.row(y) + window.x, parts.rows[0] + window.x, parts.rows[1] + window.x, window.width,
     out.channels, parts.rgb, out.row(i));
  }
}

}  // namespace

JpegDivisors jpeg_divisors(int quality) {
  const int scale = quality < 50 ? 5000 / quality : 200 - 2 * quality;
  const auto scaled = [&](int value) {
    return static_cast<float>(std::clamp((value * scale + 50) / 100, 1, 255));
  };
  JpegDivisors divisors{};
  for (size_t i = 0; i < 64; ++i) {
    divisors.luma[i] = scaled(kLuma[i]);
    divisors.chroma[i] = scaled(kChroma[i]);
  }
  return divisors;
}

Region jpeg_surroundings(const ImageSize& whole, const Region& window) {
  // The chroma of a pixel is interpolated between its own and the next one's.
  const auto begin = [](int at) { return std::max(at - 2, 0) / kJpegUnit * kJpegUnit; };
  const auto end = [](int at, int size) { return std::min(up_to(at + 2, kJpegUnit), size); };
  const int left = begin(window.x), top = begin(window.y);
  return {left, top, end(window.x + window.width, whole.width) - left,
          end(window.y + window.height, whole.height) - top};
}

void through_jpeg(const JpegDivisors& divisors, const ImageSize& whole, const Region& region,
                  const Region& window, const ConstImageView& in, const ImageView& out,
                  std::vector<std::byte>& work) {
  const Components parts(in.width, in.height, work);
  const Region part = {window.x - region.x, window.y - region.y, window.width, window.height};
  copy_alpha(in, part.x, part.y, out);
  if (in.channels >= 3) {
    take_apart(in, parts);
    quantize_blocks(parts.luma, divisors.luma.data());
    for (const BlockPlane& plane : parts.chroma) quantize_blocks(plane, divisors.chroma.data());
    const auto upsampling = coef::upsampling_of((whole.width + 1) / 2, 2, 2);
    put_together(parts, in.width, in.height, part, out, upsampling == coef::Upsampling::kRepeat);
    return;
  }
  for (int y = 0; y < in.height; ++y) {
    uint8_t* const to = parts.luma.row(y);
    for (int x = 0; x < in.width; ++x) to[x] = in.row(y)[x * in.channels];
    std::fill(to + in.width, to + parts.luma.stride, to[in.width - 1]);
  }
  repeat_last_row(parts.luma, in.height);
  quantize_blocks(parts.luma, divisors.luma.data());
  for (int y = 0; y < out.height; ++y) {
    const uint8_t* const from = parts.luma.row(part.y + y) + part.x;
    for (int x = 0; x < out.width; ++x) out.row(y)[x * out.channels] = from[x];
  }
}

}  // namespace dlpipe::augment
#endif  // HWY_ONCE
