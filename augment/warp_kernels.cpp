#include <algorithm>
#include <cstring>

#include "augment/warp.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "augment/warp_kernels.cpp"
#include <hwy/foreach_target.h>  // NOLINT: includes this file once a target

#include <hwy/highway.h>

#ifndef DLPIPE_AUGMENT_WARP_SCALAR
#define DLPIPE_AUGMENT_WARP_SCALAR
namespace dlpipe::augment {

/// Whether all offsets in the image's memory are less than 2^31 bytes.
inline bool has_small_offsets(const SampledImage& image) {
  return int64_t{image.part.stride} * image.part.height < (int64_t{1} << 31);
}

inline void sample_nearest_pixel(const SampledImage& image, int32_t x, int32_t y, const Pixel& fill,
                                 uint8_t* out) {
  const int column = x >> kNearestBits;
  const int row = y >> kNearestBits;
  const Region& there = image.region;
  const uint8_t* from = fill.data();
  if (column >= 0 && row >= 0 && column < image.width && row < image.height) {
    from = image.part.row(std::clamp(row - there.y, 0, there.height - 1)) +
           ptrdiff_t{std::clamp(column - there.x, 0, there.width - 1)} * image.part.channels;
  }
  std::memcpy(out, from, size_t(image.part.channels));
}

/// One pixel, inside or outside of the image.
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

namespace hn = hwy::HWY_NAMESPACE;
using Ints = hn::CappedTag<int32_t, 16>;

#if HWY_TARGET != HWY_SCALAR
/// The lowest three bytes of each lane to 3 * lanes bytes. `has_room`: four bytes after them may be overwritten.
HWY_INLINE void StorePixels(hn::Vec<Ints> pixels, bool has_room, uint8_t* out) {
  const hn::Repartition<uint8_t, Ints> bytes;
  alignas(16) static constexpr uint8_t kFirstThree[16] = {0,  1,  2,  4,  5,    6,    8,    9,
                                                          10, 12, 13, 14, 0x80, 0x80, 0x80, 0x80};
  alignas(64) uint8_t packed[64];
  const auto dense = hn::TableLookupBytesOr0(hn::BitCast(bytes, pixels), hn::LoadDup128(bytes, kFirstThree));
  hn::Store(dense, bytes, packed);
  const size_t blocks = hn::Lanes(bytes) / 16;
  for (size_t b = 0; b < blocks; ++b)
    std::memcpy(out + 12 * b, packed + 16 * b, has_room || b + 1 < blocks ? 16 : 12);
}
#endif

// Three channels: four bytes are read for a pixel of three, so the image's last pixel is left to plain code, like those at the
// border.
void BilinearRgb(const SampledImage& image, const int32_t* x, const int32_t* y, int count, const Pixel& fill,
                 uint8_t* out) {
  int i = 0;
#if HWY_TARGET != HWY_SCALAR
  const Ints d;
  const int lanes = static_cast<int>(hn::Lanes(d));
  constexpr int32_t kOne = 1 << kBilinearBits;
  const Region& there = image.region;
  if (there.width >= 2 && there.height >= 2 && has_small_offsets(image)) {
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
    alignas(64) int32_t by_itself[16];
    const auto width = hn::Set(d, image.width);
    const auto height = hn::Set(d, image.height);
    int32_t fill_bytes = 0;
    std::memcpy(&fill_bytes, fill.data(), 3);
    const auto filled = hn::Set(d, fill_bytes);
    for (; i + lanes <= count; i += lanes) {
      const auto from_x = hn::LoadU(d, x + i);
      const auto from_y = hn::LoadU(d, y + i);
      const auto pixel_x = hn::ShiftRight<kBilinearBits>(from_x);
      const auto pixel_y = hn::ShiftRight<kBilinearBits>(from_y);
      const auto is_in = hn::And(hn::And(hn::Gt(pixel_x, before), hn::Lt(pixel_x, width)),
                                 hn::And(hn::Gt(pixel_y, before), hn::Lt(pixel_y, height)));
      const bool has_room = i + lanes + 2 <= count;
      if (hn::AllFalse(d, is_in)) {
        StorePixels(filled, has_room, out + 3 * i);
        continue;
      }
      const auto at_x = hn::Sub(from_x, half);
      const auto at_y = hn::Sub(from_y, half);
      const auto column = hn::Sub(hn::ShiftRight<kBilinearBits>(at_x), hn::Set(d, there.x));
      const auto row = hn::Sub(hn::ShiftRight<kBilinearBits>(at_y), hn::Set(d, there.y));
      // Without the pair of the last row and column: its four bytes may end beyond the image.
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
      const auto pixels = hn::Or(r, hn::Or(hn::ShiftLeft<8>(g), hn::ShiftLeft<16>(b)));
      StorePixels(hn::IfThenElse(is_in, pixels, filled), has_room, out + 3 * i);
      const auto is_at_border = hn::AndNot(is_inner, is_in);
      if (hn::AllFalse(d, is_at_border)) continue;
      hn::Store(hn::IfThenElseZero(is_at_border, hn::Set(d, 1)), d, by_itself);
      for (int j = 0; j < lanes; ++j) {
        if (by_itself[j] != 0) sample_bilinear_pixel(image, x[i + j], y[i + j], fill, out + 3 * (i + j));
      }
    }
  }
#endif
  for (; i < count; ++i) sample_bilinear_pixel(image, x[i], y[i], fill, out + 3 * i);
}

// x becomes the pixel's place in the image's memory, in bytes; -1 for places outside.
void NearestOffsets(const SampledImage& image, int32_t* x, const int32_t* y, int count) {
  const Region& there = image.region;
  const auto some = [&](auto d, int i) HWY_ATTR {
    const auto constant = [&](ptrdiff_t value) HWY_ATTR { return hn::Set(d, static_cast<int32_t>(value)); };
    const auto clamp = [&](auto at, int most)
                           HWY_ATTR { return hn::Min(hn::Max(at, hn::Zero(d)), constant(most)); };
    const auto is_in = [&](auto at, int size)
                           HWY_ATTR { return hn::And(hn::Gt(at, constant(-1)), hn::Lt(at, constant(size))); };
    const auto column = hn::ShiftRight<kNearestBits>(hn::LoadU(d, x + i));
    const auto row = hn::ShiftRight<kNearestBits>(hn::LoadU(d, y + i));
    const auto in_column = clamp(hn::Sub(column, constant(there.x)), there.width - 1);
    const auto in_row = clamp(hn::Sub(row, constant(there.y)), there.height - 1);
    const auto offset = hn::Add(hn::Mul(in_row, constant(image.part.stride)),
                                hn::Mul(in_column, constant(image.part.channels)));
    const auto both = hn::And(is_in(column, image.width), is_in(row, image.height));
    hn::StoreU(hn::IfThenElse(both, offset, constant(-1)), d, x + i);
  };
  const Ints d;
  const int lanes = static_cast<int>(hn::Lanes(d));
  int i = 0;
  for (; i + lanes <= count; i += lanes) some(d, i);
  for (; i < count; ++i) some(hn::CappedTag<int32_t, 1>(), i);
}

void ProjectiveRow(const double* map, int first, int y, int count, int bits, int32_t* x_out, int32_t* y_out) {
  const double center_y = y + 0.5;
  const double x0 = map[1] * center_y + map[2];
  const double y0 = map[4] * center_y + map[5];
  const double w0 = map[7] * center_y + 1;
  const bool is_affine = map[6] == 0 && map[7] == 0;
  const auto some = [&](auto d, int i) HWY_ATTR {
    const hn::Rebind<int32_t, decltype(d)> ints;
    // Rounded down; large numbers are clamped to the range of int32_t.
    const auto store = [&](auto value, int32_t* out) HWY_ATTR {
      const auto near =
          hn::Min(hn::Max(value, hn::Set(d, double{kLowestFixed})), hn::Set(d, double{kHighestFixed}));
      hn::StoreU(hn::DemoteTo(ints, hn::Floor(near)), ints, out + i);
    };
    const auto center_x = hn::Iota(d, static_cast<double>(first + i) + 0.5);
    const auto line = [&](double factor, double begin) HWY_ATTR {
      return hn::Add(hn::Mul(hn::Set(d, factor), center_x), hn::Set(d, begin));
    };
    auto from_x = line(map[0], x0);
    auto from_y = line(map[3], y0);
    if (!is_affine) {
      const auto w = line(map[6], w0);
      from_x = hn::Div(from_x, w);
      from_y = hn::Div(from_y, w);
    }
    const auto one = hn::Set(d, static_cast<double>(1 << bits));
    store(hn::Mul(from_x, one), x_out);
    store(hn::Mul(from_y, one), y_out);
  };
  const hn::CappedTag<double, 8> d;
  const int lanes = static_cast<int>(hn::Lanes(d));
  int i = 0;
  for (; i + lanes <= count; i += lanes) some(d, i);
  for (; i < count; ++i) some(hn::CappedTag<double, 1>(), i);
}

}  // namespace HWY_NAMESPACE
}  // namespace dlpipe::augment
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dlpipe::augment {

HWY_EXPORT(BilinearRgb);
HWY_EXPORT(NearestOffsets);
HWY_EXPORT(ProjectiveRow);

void projective_row(const double* map, int first, int y, int count, int bits, int32_t* x_out,
                    int32_t* y_out) {
  HWY_DYNAMIC_DISPATCH(ProjectiveRow)(map, first, y, count, bits, x_out, y_out);
}

void sample_bilinear(const SampledImage& image, int32_t* x, const int32_t* y, int count, const Pixel& fill,
                     uint8_t* out) {
  if (image.part.channels == 3) return HWY_DYNAMIC_DISPATCH(BilinearRgb)(image, x, y, count, fill, out);
  for (int i = 0; i < count; ++i)
    sample_bilinear_pixel(image, x[i], y[i], fill, out + ptrdiff_t{i} * image.part.channels);
}

void sample_nearest(const SampledImage& image, int32_t* x, const int32_t* y, int count, const Pixel& fill,
                    uint8_t* out) {
  const int channels = image.part.channels;
  if (!has_small_offsets(image)) {
    for (int i = 0; i < count; ++i, out += channels) sample_nearest_pixel(image, x[i], y[i], fill, out);
    return;
  }
  HWY_DYNAMIC_DISPATCH(NearestOffsets)(image, x, y, count);
  const auto from = [&](int i) { return x[i] < 0 ? fill.data() : image.part.data + x[i]; };
  int i = 0;
  if (channels ==
      3) {  // copies four bytes per pixel; the next one overwrites the fourth. Not for the last pixel
    const int32_t last =
        static_cast<int32_t>(image.part.stride) * (image.region.height - 1) + 3 * (image.region.width - 1);
    for (; i + 1 < count; ++i, out += 3) {
      if (x[i] == last) break;
      std::memcpy(out, from(i), 4);
    }
  }
  for (; i < count; ++i, out += channels) std::memcpy(out, from(i), size_t(channels));
}

}  // namespace dlpipe::augment
#endif  // HWY_ONCE
