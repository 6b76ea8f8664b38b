// The inner loops that move RGB pixels unchanged: mirroring rows, and swapping rows and columns.

#include "augment/copy.h"

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "augment/copy_kernels.cpp"
#include <hwy/foreach_target.h>  // NOLINT: includes this file once a target

#include <hwy/highway.h>

#ifndef DLPIPE_AUGMENT_COPY_KERNELS_TABLES
#define DLPIPE_AUGMENT_COPY_KERNELS_TABLES
namespace dlpipe::augment {

/// Mirrors sixteen pixels in three vectors. [output][input]: for each output byte its index in the input; 0x80: not in this one.
struct MirrorTables {
  alignas(16) uint8_t at[3][3][16];
};
constexpr MirrorTables make_mirror_tables() {
  MirrorTables tables{};
  for (size_t i = 0; i < 48; ++i) {
    const size_t source = 3 * (15 - i / 3) + i % 3;
    for (size_t input = 0; input < 3; ++input)
      tables.at[i / 16][input][i % 16] = input == source / 16 ? static_cast<uint8_t>(source % 16) : 0x80;
  }
  return tables;
}
inline constexpr MirrorTables kMirrorTables = make_mirror_tables();

inline void mirror_rgb_pixels(const uint8_t* from, uint8_t* to, int width) {
  for (int x = 0; x < width; ++x) {
    for (int c = 0; c < 3; ++c) to[3 * x + c] = from[3 * (width - 1 - x) + c];
  }
}

inline constexpr int kTurned = 4;  // rows and columns of a block
inline constexpr int kTurnedStrip =
    64;  // rows of a strip: their cache lines stay in the first-level cache until all columns are processed

/// Spreads four pixels of three bytes to four bytes each: for each output byte its index in the input; 0x80: none.
struct SpreadTable {
  alignas(16) uint8_t at[16];
};
constexpr SpreadTable make_spread_table(bool reversed, int begin) {
  SpreadTable table{};
  for (int i = 0; i < 16; ++i) {
    const int pixel = reversed ? kTurned - 1 - i / 4 : i / 4;
    table.at[i] = i % 4 == 3 ? uint8_t{0x80} : static_cast<uint8_t>(begin + 3 * pixel + i % 4);
  }
  return table;
}
/// [reversed][last]: a row's last pixels are loaded together with the four bytes before them.
inline constexpr SpreadTable kSpreadTables[2][2] = {
    {make_spread_table(false, 0), make_spread_table(false, 4)},
    {make_spread_table(true, 0), make_spread_table(true, 4)}};
struct JoinTable {
  alignas(16) uint8_t at[16] = {0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, 0x80, 0x80, 0x80, 0x80};
};
inline constexpr JoinTable kJoinTable;

inline void transpose_rgb_pixels(const uint8_t* from, ptrdiff_t from_stride, bool reversed, uint8_t* to,
                                 ptrdiff_t to_stride, int width, int height) {
  for (int x = 0; x < width; ++x) {
    const uint8_t* pixel = from + ptrdiff_t{3} * (reversed ? width - 1 - x : x);
    uint8_t* out = to + x * to_stride;
    for (int y = 0; y < height; ++y, pixel += from_stride, out += 3) std::memcpy(out, pixel, 3);
  }
}

}  // namespace dlpipe::augment
#endif

HWY_BEFORE_NAMESPACE();
namespace dlpipe::augment {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

void MirrorRows(const uint8_t* from, ptrdiff_t from_stride, uint8_t* to, ptrdiff_t to_stride, int width,
                int height) {
#if HWY_TARGET == HWY_SCALAR
  for (int y = 0; y < height; ++y) mirror_rgb_pixels(from + y * from_stride, to + y * to_stride, width);
#else
  namespace hn = hwy::HWY_NAMESPACE;
  constexpr int kPixels = 16;
  if (width < kPixels) {
    for (int y = 0; y < height; ++y) mirror_rgb_pixels(from + y * from_stride, to + y * to_stride, width);
    return;
  }
  const hn::Full128<uint8_t> d;
  const auto table = [&](int output, int input)
                         HWY_ATTR { return hn::Load(d, kMirrorTables.at[output][input]); };
  const auto t01 = table(0, 1), t02 = table(0, 2);
  const auto t10 = table(1, 0), t11 = table(1, 1), t12 = table(1, 2);
  const auto t20 = table(2, 0), t21 = table(2, 1);
  for (int y = 0; y < height; ++y, from += from_stride, to += to_stride) {
    for (int x = 0; x < width; x += kPixels) {
      const int first = std::min(x, width - kPixels);  // the last block overlaps the one before it
      const uint8_t* const source = from + ptrdiff_t{3} * (width - kPixels - first);
      const auto a = hn::LoadU(d, source);
      const auto b = hn::LoadU(d, source + 16);
      const auto c = hn::LoadU(d, source + 32);
      uint8_t* const out = to + ptrdiff_t{3} * first;
      hn::StoreU(hn::Or(hn::TableLookupBytesOr0(b, t01), hn::TableLookupBytesOr0(c, t02)), d, out);
      hn::StoreU(hn::Or(hn::Or(hn::TableLookupBytesOr0(a, t10), hn::TableLookupBytesOr0(b, t11)),
                        hn::TableLookupBytesOr0(c, t12)),
                 d, out + 16);
      hn::StoreU(hn::Or(hn::TableLookupBytesOr0(a, t20), hn::TableLookupBytesOr0(b, t21)), d, out + 32);
    }
  }
#endif
}

void TransposePixels(const uint8_t* from, ptrdiff_t from_stride, bool reversed, uint8_t* to,
                     ptrdiff_t to_stride, int width, int height) {
#if HWY_TARGET == HWY_SCALAR
  transpose_rgb_pixels(from, from_stride, reversed, to, to_stride, width, height);
#else
  constexpr int kWhole = 6;  // 16 bytes are within this many pixels
  if (width < kWhole || height < kTurned)
    return transpose_rgb_pixels(from, from_stride, reversed, to, to_stride, width, height);
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::Full128<uint8_t> d;
  const hn::Full128<uint32_t> d32;
  const hn::Full128<uint64_t> d64;
  const auto join = hn::Load(d, kJoinTable.at);
  const auto spread = hn::Load(d, kSpreadTables[reversed][0].at);
  const auto spread_last = hn::Load(d, kSpreadTables[reversed][1].at);
  for (int strip = 0; strip < height; strip += kTurnedStrip) {
    const int strip_end = std::min(strip + kTurnedStrip, height);
    for (int block = 0; block < width; block += kTurned) {
      const int x = std::min(block, width - kTurned);  // the last block overlaps the one before it
      const int first = reversed ? width - kTurned - x : x;
      const bool is_last = first + kWhole > width;
      const auto table = is_last ? spread_last : spread;
      const uint8_t* const column = from + ptrdiff_t{3} * first - (is_last ? 4 : 0);
      for (int row = strip; row < strip_end; row += kTurned) {
        const int y = std::min(row, height - kTurned);
        const uint8_t* const source = column + y * from_stride;
        const auto pixels = [&](int r) HWY_ATTR {
          return hn::BitCast(d32, hn::TableLookupBytesOr0(hn::LoadU(d, source + r * from_stride), table));
        };
        const auto a = pixels(0), b = pixels(1), c = pixels(2), e = pixels(3);
        const auto ab_low = hn::BitCast(d64, hn::InterleaveLower(d32, a, b));
        const auto ce_low = hn::BitCast(d64, hn::InterleaveLower(d32, c, e));
        const auto ab_high = hn::BitCast(d64, hn::InterleaveUpper(d32, a, b));
        const auto ce_high = hn::BitCast(d64, hn::InterleaveUpper(d32, c, e));
        uint8_t* const out = to + x * to_stride + ptrdiff_t{3} * y;
        const bool has_room = y + kWhole <= height;  // a later store overwrites the excess
        const auto store = [&](int r, hn::Vec<hn::Full128<uint64_t> > four) HWY_ATTR {
          const auto bytes = hn::TableLookupBytesOr0(hn::BitCast(d, four), join);
          if (has_room) {
            hn::StoreU(bytes, d, out + r * to_stride);
          } else {
            alignas(16) uint8_t twelve[16];
            hn::Store(bytes, d, twelve);
            std::memcpy(out + r * to_stride, twelve, 12);
          }
        };
        store(0, hn::InterleaveLower(d64, ab_low, ce_low));
        store(1, hn::InterleaveUpper(d64, ab_low, ce_low));
        store(2, hn::InterleaveLower(d64, ab_high, ce_high));
        store(3, hn::InterleaveUpper(d64, ab_high, ce_high));
      }
    }
  }
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace dlpipe::augment
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dlpipe::augment {

HWY_EXPORT(MirrorRows);

MirrorRgb mirror_rgb() {
  return HWY_DYNAMIC_DISPATCH(MirrorRows);
}

HWY_EXPORT(TransposePixels);

TransposeRgb transpose_rgb() {
  return HWY_DYNAMIC_DISPATCH(TransposePixels);
}

}  // namespace dlpipe::augment
#endif  // HWY_ONCE
