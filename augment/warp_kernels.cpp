#include <algorithm>
#include <cstring>

#include "dlpipe/augment/warp.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "dlpipe/augment/warp_kernels.cpp"
#include <hwy/foreach_target.h>  // NOLINT: includes this file once a target

#include <hwy/highway.h>

#ifndef DLPIPE_AUGMENT_WARP_SCALAR
#define DLPIPE_AUGMENT_WARP_SCALAR
namespace dlpipe::augment {

/// One pixel, wherever it lies.
inline void sample_bilinear_pixel(const SampledImage& image, int32_t x, int32_t y, const Pixel& fill,
                                  uint8_t* out) {
  constexpr int32_t kOne = 1 << kBilinearBits;
  const int channels = image.part.channels;
  if (x < 0 || y < 0 || x >= int64_t{image.width} * kOne || y >= int64_t{image.height} * kOne) {
    for (int c = 0; c < channels; ++c) out[c] = fill[static_cast<size_t>(c)];
    return;
  }
  x -= kOne / 2;
  y -= kOne / 2;
  const Region& there = image.region;
  const auto column = [&](int at) { return std::clamp(at, there.x, there.x + there.width - 1) - there.x; };
  const auto row = [&](int at) { return std::clamp(at, there.y, there.y + there.height - 1) - there.y; };
  const int x0 = column(x >> kBilinearBits), x1 = column((x >> kBilinearBits) + 1);
  const uint8_t* const top = image.part.row(row(y >> kBilinearBits));
  const uint8_t* const bottom = image.part.row(row((y >> kBilinearBits) + 1));
  const int32_t right = x & (kOne - 1), left = kOne - right;
  const int32_t low = y & (kOne - 1), high = kOne - low;
  for (int c = 0; c < channels; ++c) {
    const int32_t above = top[x0 * channels + c] * left + top[x1 * channels + c] * right;
    const int32_t below = bottom[x0 * channels + c] * left + bottom[x1 * channels + c] * right;
    // 19 bits of a value and 11 of a weight
    out[c] = static_cast<uint8_t>((above * high + below * low) >> (2 * kBilinearBits));
  }
}

}  // namespace dlpipe::augment
#endif

HWY_BEFORE_NAMESPACE();
namespace dlpipe::augment {
namespace HWY_NAMESPACE {

// Three channels: four bytes are read where a pixel has three, so the last pixel of all is left to plain code, as are those
// at the border and outside.
void BilinearRgb(const SampledImage& image, const int32_t* x, const int32_t* y, int count, const Pixel& fill,
                 uint8_t* out) {
  int i = 0;
#if HWY_TARGET != HWY_SCALAR
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::ScalableTag<int32_t> d;
  const int lanes = static_cast<int>(hn::Lanes(d));
  constexpr int32_t kOne = 1 << kBilinearBits;
  const Region& there = image.region;
  const int64_t bytes = int64_t{image.part.stride} * image.part.height;
  if (there.width >= 2 && there.height >= 2 && bytes < (int64_t{1} << 31)) {
    const auto half = hn::Set(d, kOne / 2);
    const auto mask = hn::Set(d, kOne - 1);
    const auto byte = hn::Set(d, 255);
    const auto before = hn::Set(d, -1);
    const auto last_x = hn::Set(d, there.width - 2);  // the last that has a pixel to its right
    const auto last_y = hn::Set(d, there.height - 2);
    const auto end_x = hn::Set(d, there.width - 1);
    const auto end_y = hn::Set(d, there.height - 1);
    const auto stride = hn::Set(d, static_cast<int32_t>(image.part.stride));
    const auto* const base = reinterpret_cast<const int32_t*>(image.part.data);
    alignas(64) int32_t packed[16];
    alignas(64) int32_t inner[16];
    for (; i + lanes <= count; i += lanes) {
      const auto at_x = hn::Sub(hn::LoadU(d, x + i), half);
      const auto at_y = hn::Sub(hn::LoadU(d, y + i), half);
      const auto column = hn::Sub(hn::ShiftRight<kBilinearBits>(at_x), hn::Set(d, there.x));
      const auto row = hn::Sub(hn::ShiftRight<kBilinearBits>(at_y), hn::Set(d, there.y));
      // Not the last row's and column's pair: its four bytes may end behind the image.
      const auto is_inner = hn::And(hn::And(hn::Gt(column, before), hn::Lt(column, end_x)),
                                    hn::And(hn::And(hn::Gt(row, before), hn::Lt(row, end_y)),
                                            hn::Or(hn::Lt(column, last_x), hn::Lt(row, last_y))));
      const auto offset =
          hn::IfThenElseZero(is_inner, hn::Add(hn::Mul(row, stride), hn::Mul(column, hn::Set(d, 3))));
      const auto next = hn::Add(offset, hn::Set(d, 3));
      const auto p00 = hn::GatherOffset(d, base, offset);
      const auto p01 = hn::GatherOffset(d, base, next);
      const auto p10 = hn::GatherOffset(d, base, hn::Add(offset, stride));
      const auto p11 = hn::GatherOffset(d, base, hn::Add(next, stride));
      const auto right = hn::And(at_x, mask);
      const auto left = hn::Sub(hn::Set(d, kOne), right);
      const auto low = hn::And(at_y, mask);
      const auto high = hn::Sub(hn::Set(d, kOne), low);
      const auto channel = [&](auto a, auto b, auto e, auto f) HWY_ATTR {
        const auto above = hn::Add(hn::Mul(hn::And(a, byte), left), hn::Mul(hn::And(b, byte), right));
        const auto below = hn::Add(hn::Mul(hn::And(e, byte), left), hn::Mul(hn::And(f, byte), right));
        return hn::ShiftRight<2 * kBilinearBits>(hn::Add(hn::Mul(above, high), hn::Mul(below, low)));
      };
      const auto r = channel(p00, p01, p10, p11);
      const auto g = channel(hn::ShiftRight<8>(p00), hn::ShiftRight<8>(p01), hn::ShiftRight<8>(p10),
                             hn::ShiftRight<8>(p11));
      const auto b = channel(hn::ShiftRight<16>(p00), hn::ShiftRight<16>(p01), hn::ShiftRight<16>(p10),
                             hn::ShiftRight<16>(p11));
      hn::Store(hn::Or(r, hn::Or(hn::ShiftLeft<8>(g), hn::ShiftLeft<16>(b))), d, packed);
      for (int j = 0; j < lanes; ++j) std::memcpy(out + 3 * (i + j), packed + j, 3);
      if (hn::AllTrue(d, is_inner)) continue;
      hn::Store(hn::IfThenElseZero(is_inner, hn::Set(d, 1)), d, inner);
      for (int j = 0; j < lanes; ++j) {
        if (inner[j] == 0) sample_bilinear_pixel(image, x[i + j], y[i + j], fill, out + 3 * (i + j));
      }
    }
  }
#endif
  for (; i < count; ++i) sample_bilinear_pixel(image, x[i], y[i], fill, out + 3 * i);
}

// Rounded down; what is far from 0 is cut to what the conversion can hold.
HWY_INLINE int32_t RoundedDown(double value) {
  constexpr double kFar = 1 << 30;
  const double near = std::min(std::max(value, -kFar), kFar);
  const auto whole = static_cast<int32_t>(near);
  return whole - (near < static_cast<double>(whole) ? 1 : 0);
}

void ProjectiveRow(const double* map, int first, int y, int count, int bits, int32_t* HWY_RESTRICT x_out,
                   int32_t* HWY_RESTRICT y_out) {
  const double one = 1 << bits;
  const double center_y = y + 0.5;
  const double m0 = map[0], m3 = map[3], m6 = map[6];
  const double x0 = map[1] * center_y + map[2];
  const double y0 = map[4] * center_y + map[5];
  const double w0 = map[7] * center_y + 1;
  if (m6 == 0 && map[7] == 0) {
    for (int i = 0; i < count; ++i) {
      const double center_x = first + i + 0.5;
      x_out[i] = RoundedDown((m0 * center_x + x0) * one);
      y_out[i] = RoundedDown((m3 * center_x + y0) * one);
    }
    return;
  }
  for (int i = 0; i < count; ++i) {
    const double center_x = first + i + 0.5;
    const double w = m6 * center_x + w0;
    x_out[i] = RoundedDown((m0 * center_x + x0) / w * one);
    y_out[i] = RoundedDown((m3 * center_x + y0) / w * one);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace dlpipe::augment
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dlpipe::augment {

HWY_EXPORT(BilinearRgb);
HWY_EXPORT(ProjectiveRow);

void projective_row(const double* map, int first, int y, int count, int bits, int32_t* x_out,
                    int32_t* y_out) {
  HWY_DYNAMIC_DISPATCH(ProjectiveRow)(map, first, y, count, bits, x_out, y_out);
}

void sample_bilinear(const SampledImage& image, const int32_t* x, const int32_t* y, int count,
                     const Pixel& fill, uint8_t* out) {
  if (image.part.channels == 3) return HWY_DYNAMIC_DISPATCH(BilinearRgb)(image, x, y, count, fill, out);
  for (int i = 0; i < count; ++i)
    sample_bilinear_pixel(image, x[i], y[i], fill, out + ptrdiff_t{i} * image.part.channels);
}

void sample_nearest(const SampledImage& image, const int32_t* x, const int32_t* y, int count,
                    const Pixel& fill, uint8_t* out) {
  const int channels = image.part.channels;
  const Region& there = image.region;
  for (int i = 0; i < count; ++i, out += channels) {
    const int column = x[i] >> kNearestBits;
    const int row = y[i] >> kNearestBits;
    const uint8_t* from = fill.data();
    if (column >= 0 && row >= 0 && column < image.width && row < image.height) {
      const int in_column = std::clamp(column - there.x, 0, there.width - 1);
      const int in_row = std::clamp(row - there.y, 0, there.height - 1);
      from = image.part.row(in_row) + ptrdiff_t{in_column} * channels;
    }
    if (channels == 3) {
      std::memcpy(out, from, 3);
    } else {
      for (int c = 0; c < channels; ++c) out[c] = from[c];
    }
  }
}

}  // namespace dlpipe::augment
#endif  // HWY_ONCE
