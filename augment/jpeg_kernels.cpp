// The effect of baseline JPEG on an image: transforming and quantizing its blocks and back; before and after that, colours
// and chroma.

#include "augment/jpeg_kernels.h"

#include <algorithm>
#include <utility>

#include "arithmetic/coefficients.h"
#include "augment/copy.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "augment/jpeg_kernels.cpp"
#include <hwy/foreach_target.h>  // NOLINT: includes this file once a target

#include <hwy/highway.h>

#ifndef DLPIPE_AUGMENT_JPEG_KERNELS_TABLES
#define DLPIPE_AUGMENT_JPEG_KERNELS_TABLES
namespace dlpipe::augment {

/// One component: rows of `stride` values, blocks of 8 x 8.
struct BlockPlane {
  uint8_t* values;
  int stride;  // a multiple of 8
  int height;  // also a multiple of 8
  uint8_t* row(int y) const { return values + ptrdiff_t{y} * stride; }
};

}  // namespace dlpipe::augment
#endif

HWY_BEFORE_NAMESPACE();
namespace dlpipe::augment {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

constexpr int kSide = 8;
constexpr int kConstantBits = 13;
constexpr int kExtraBits = 2;  // extra precision of values between the two passes

constexpr int32_t Constant(double value) {
  return static_cast<int32_t>(value * (1 << kConstantBits) + (value < 0 ? -0.5 : 0.5));
}

// A pass works on 32 bits; values between passes fit into 16, as in libjpeg's own vector code.
using Wide = hn::CappedTag<int32_t, kSide>;
using Narrow = hn::Rebind<int16_t, Wide>;
using WideFloats = hn::RebindToFloat<Wide>;
using V = hn::Vec<Wide>;

HWY_INLINE V Times(V value, double constant) {
  return hn::Mul(value, hn::Set(Wide(), Constant(constant)));
}

template <int kBits>
HWY_INLINE void StoreDescaled(V value, int16_t* to) {
  const V rounded = hn::ShiftRight<kBits>(hn::Add(value, hn::Set(Wide(), 1 << (kBits - 1))));
  hn::Store(hn::DemoteTo(Narrow(), rounded), Narrow(), to);
}

// The part that both directions share: four sums of four odd numbers.
HWY_INLINE void Rotate(V& v0, V& v1, V& v2, V& v3) {
  const V z5 = Times(hn::Add(hn::Add(v0, v2), hn::Add(v1, v3)), 1.175875602);
  const V z1 = Times(hn::Add(v0, v3), -0.899976223);
  const V z2 = Times(hn::Add(v1, v2), -2.562915447);
  const V z3 = hn::Add(Times(hn::Add(v0, v2), -1.961570560), z5);
  const V z4 = hn::Add(Times(hn::Add(v1, v3), -0.390180644), z5);
  v0 = hn::Add(Times(v0, 0.298631336), hn::Add(z1, z3));
  v1 = hn::Add(Times(v1, 2.053119869), hn::Add(z2, z4));
  v2 = hn::Add(Times(v2, 3.072711026), hn::Add(z2, z3));
  v3 = hn::Add(Times(v3, 1.501321110), hn::Add(z1, z4));
}

/// Eight transforms of eight numbers side by side: number k of transform i is at 8 k + i.
template <bool kIsFirst>
HWY_INLINE void Forward(const int16_t* HWY_RESTRICT from, int16_t* HWY_RESTRICT to) {
  constexpr int kBits = kIsFirst ? kConstantBits - kExtraBits : kConstantBits + kExtraBits;
  const Wide wide;
  for (size_t i = 0; i < kSide; i += hn::Lanes(wide)) {
    const auto at = [&](size_t k)
                        HWY_ATTR { return hn::PromoteTo(wide, hn::Load(Narrow(), from + kSide * k + i)); };
    const V sum0 = hn::Add(at(0), at(7)), sum1 = hn::Add(at(1), at(6));
    const V sum2 = hn::Add(at(2), at(5)), sum3 = hn::Add(at(3), at(4));
    const V even0 = hn::Add(sum0, sum3), even3 = hn::Sub(sum0, sum3);
    const V even1 = hn::Add(sum1, sum2), even2 = hn::Sub(sum1, sum2);
    const V whole0 = hn::Add(even0, even1), whole4 = hn::Sub(even0, even1);
    if constexpr (kIsFirst) {
      hn::Store(hn::DemoteTo(Narrow(), hn::ShiftLeft<kExtraBits>(whole0)), Narrow(), to + i);
      hn::Store(hn::DemoteTo(Narrow(), hn::ShiftLeft<kExtraBits>(whole4)), Narrow(), to + 4 * kSide + i);
    } else {
      StoreDescaled<kExtraBits>(whole0, to + i);
      StoreDescaled<kExtraBits>(whole4, to + 4 * kSide + i);
    }
    const V z1 = Times(hn::Add(even2, even3), 0.541196100);
    StoreDescaled<kBits>(hn::Add(z1, Times(even3, 0.765366865)), to + 2 * kSide + i);
    StoreDescaled<kBits>(hn::Add(z1, Times(even2, -1.847759065)), to + 6 * kSide + i);
    V odd0 = hn::Sub(at(3), at(4)), odd1 = hn::Sub(at(2), at(5));
    V odd2 = hn::Sub(at(1), at(6)), odd3 = hn::Sub(at(0), at(7));
    Rotate(odd0, odd1, odd2, odd3);
    StoreDescaled<kBits>(odd0, to + 7 * kSide + i);
    StoreDescaled<kBits>(odd1, to + 5 * kSide + i);
    StoreDescaled<kBits>(odd2, to + 3 * kSide + i);
    StoreDescaled<kBits>(odd3, to + 1 * kSide + i);
  }
}

template <bool kIsFirst>
HWY_INLINE void Backward(const int16_t* HWY_RESTRICT from, int16_t* HWY_RESTRICT to) {
  constexpr int kBits = kIsFirst ? kConstantBits - kExtraBits : kConstantBits + kExtraBits + 3;
  const Wide wide;
  for (size_t i = 0; i < kSide; i += hn::Lanes(wide)) {
    const auto at = [&](size_t k)
                        HWY_ATTR { return hn::PromoteTo(wide, hn::Load(Narrow(), from + kSide * k + i)); };
    const V z1 = Times(hn::Add(at(2), at(6)), 0.541196100);
    const V low = hn::Add(z1, Times(at(6), -1.847759065));
    const V high = hn::Add(z1, Times(at(2), 0.765366865));
    const V sum = hn::ShiftLeft<kConstantBits>(hn::Add(at(0), at(4)));
    const V difference = hn::ShiftLeft<kConstantBits>(hn::Sub(at(0), at(4)));
    V odd0 = at(7), odd1 = at(5), odd2 = at(3), odd3 = at(1);
    Rotate(odd0, odd1, odd2, odd3);
    const auto both = [&](V even, V odd, size_t k) HWY_ATTR {
      StoreDescaled<kBits>(hn::Add(even, odd), to + kSide * k + i);
      StoreDescaled<kBits>(hn::Sub(even, odd), to + kSide * (7 - k) + i);
    };
    both(hn::Add(sum, high), odd3, 0);
    both(hn::Add(difference, low), odd2, 1);
    both(hn::Sub(difference, low), odd1, 2);
    both(hn::Sub(sum, high), odd0, 3);
  }
}

#if HWY_TARGET == HWY_SCALAR
void Transpose(int16_t* values) {
  for (int y = 0; y < kSide; ++y) {
    for (int x = 0; x < y; ++x) std::swap(values[y * kSide + x], values[x * kSide + y]);
  }
}
#else
HWY_INLINE void Transpose(int16_t* HWY_RESTRICT values) {
  const hn::FixedTag<int16_t, kSide> d;
  const auto row = [&](size_t k) HWY_ATTR { return hn::Load(d, values + kSide * k); };
  const auto low = [&](auto x, auto y) HWY_ATTR { return hn::InterleaveLower(d, x, y); };
  const auto high = [&](auto x, auto y) HWY_ATTR { return hn::InterleaveUpper(d, x, y); };
  // Interleaving row k with row k + 4, three times, turns rows into columns.
  const auto a0 = low(row(0), row(4)), a1 = high(row(0), row(4)), a2 = low(row(1), row(5));
  const auto a3 = high(row(1), row(5)), a4 = low(row(2), row(6)), a5 = high(row(2), row(6));
  const auto a6 = low(row(3), row(7)), a7 = high(row(3), row(7));
  const auto b0 = low(a0, a4), b1 = high(a0, a4), b2 = low(a1, a5), b3 = high(a1, a5);
  const auto b4 = low(a2, a6), b5 = high(a2, a6), b6 = low(a3, a7), b7 = high(a3, a7);
  const auto write = [&](size_t k, auto x, auto y) HWY_ATTR {
    hn::Store(low(x, y), d, values + kSide * k);
    hn::Store(high(x, y), d, values + kSide * (k + 1));
  };
  write(0, b0, b4);
  write(2, b1, b5);
  write(4, b2, b6);
  write(6, b3, b7);
}
#endif

/// Divisors, the terms that round to nearest (halves away from zero), and reciprocals. The last two include the
/// transform's factor 8.
struct Quantizer {
  alignas(64) int32_t divisor[kSide * kSide];
  alignas(64) float half[kSide * kSide];
  alignas(64) float inverse[kSide * kSide];

  explicit Quantizer(const float* divisors) {
    for (int i = 0; i < kSide * kSide; ++i) {
      divisor[i] = static_cast<int32_t>(divisors[i]);
      // With the 0.5, no quotient is nearer to a whole number than 1 / (16 divisor), and floats have smaller errors.
      half[i] = 4 * divisors[i] + 0.5f;
      inverse[i] = 1 / (8 * divisors[i]);
    }
  }
};

void Quantize(const Quantizer& by, int16_t* values) {
  const Wide wide;
  const WideFloats floats;
  for (size_t i = 0; i < kSide * kSide; i += hn::Lanes(wide)) {
    const V value = hn::PromoteTo(wide, hn::Load(Narrow(), values + i));
    const auto size = hn::Add(hn::ConvertTo(floats, hn::Abs(value)), hn::Load(floats, by.half + i));
    const V steps = hn::ConvertTo(wide, hn::Mul(size, hn::Load(floats, by.inverse + i)));
    const V kept = hn::Mul(steps, hn::Load(wide, by.divisor + i));
    const V signed_kept = hn::IfThenElse(hn::Lt(value, hn::Zero(wide)), hn::Neg(kept), kept);
    hn::Store(hn::DemoteTo(Narrow(), signed_kept), Narrow(), values + i);
  }
}

#if HWY_TARGET == HWY_SCALAR
void LoadBlock(const uint8_t* block, ptrdiff_t stride, int16_t* to) {
  for (int i = 0; i < kSide * kSide; ++i)
    to[i] = static_cast<int16_t>(block[i / kSide * stride + i % kSide] - 128);
}
void StoreBlock(const int16_t* from, uint8_t* block, ptrdiff_t stride) {
  for (int i = 0; i < kSide * kSide; ++i)
    block[i / kSide * stride + i % kSide] = static_cast<uint8_t>(std::min(std::max(from[i] + 128, 0), 255));
}
#else
HWY_INLINE void LoadBlock(const uint8_t* block, ptrdiff_t stride, int16_t* HWY_RESTRICT to) {
  const hn::FixedTag<int16_t, kSide> d;
  const hn::Rebind<uint8_t, decltype(d)> bytes;
  for (int i = 0; i < kSide; ++i) {
    const auto values = hn::PromoteTo(d, hn::LoadU(bytes, block + i * stride));
    hn::Store(hn::Sub(values, hn::Set(d, 128)), d, to + i * kSide);
  }
}
HWY_INLINE void StoreBlock(const int16_t* HWY_RESTRICT from, uint8_t* block, ptrdiff_t stride) {
  const hn::FixedTag<int16_t, kSide> d;
  const hn::Rebind<uint8_t, decltype(d)> bytes;
  for (int i = 0; i < kSide; ++i) {
    const auto values = hn::SaturatedAdd(hn::Load(d, from + i * kSide), hn::Set(d, 128));
    hn::StoreU(hn::DemoteTo(bytes, values), bytes, block + i * stride);
  }
}
#endif

void QuantizeBlocks(const BlockPlane& plane, const float* divisors) {
  const Quantizer quantizer(divisors);
  alignas(64) int16_t a[kSide * kSide];
  alignas(64) int16_t b[kSide * kSide];
  for (int y = 0; y < plane.height; y += kSide) {
    for (int x = 0; x < plane.stride; x += kSide) {
      uint8_t* const block = plane.row(y) + x;
      LoadBlock(block, plane.stride, a);
      Transpose(a);
      Forward<true>(a, b);
      Transpose(b);
      Forward<false>(b, a);
      Quantize(quantizer, a);
      Backward<true>(a, b);
      Transpose(b);
      Backward<false>(b, a);
      Transpose(a);
      StoreBlock(a, block, plane.stride);
    }
  }
}

/// Splits and joins pixels, three channels of a row at a time; others one by one.
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

/// One row's luma and chroma at full size; pixels right of the image repeat its last one. `rgb` is scratch.
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

/// Means of 2 x 2, rounded down and up alternately.
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

HWY_EXPORT(QuantizeBlocks);

/// Quantizes the discrete cosine transform of a plane's blocks: forward transform, rounding to the nearest multiples, and
/// inverse transform, with 13-bit constants (Loeffler, Ligtenberg and Moschytz, 1989) and whole numbers, the same on every
/// instruction set. `divisors` are 64 whole numbers, [row][column].
static void quantize_blocks(const BlockPlane& plane, const float* divisors) {
  HWY_DYNAMIC_DISPATCH(QuantizeBlocks)(plane, divisors);
}

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

/// The three components of one image, and scratch rows.
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
