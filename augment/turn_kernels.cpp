#include "dlpipe/augment/turn_kernels.h"

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "dlpipe/augment/turn_kernels.cpp"
#include <hwy/foreach_target.h>  // NOLINT: includes this file once a target

#include <hwy/highway.h>

#ifndef DLPIPE_AUGMENT_TURN_TABLES
#define DLPIPE_AUGMENT_TURN_TABLES
namespace dlpipe::augment {

inline constexpr int kTurned = 4;  // rows and columns of a block
inline constexpr int kTurnedStrip =
    64;  // rows whose lines stay in the first cache while their columns are gone through

/// Which byte of 16 goes where when four pixels of three bytes become four of four; 0x80: none.
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
/// [reversed][of the last pixels of a row, which are loaded with the four bytes before them]
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

void TransposePixels(const uint8_t* from, ptrdiff_t from_stride, bool reversed, uint8_t* to,
                     ptrdiff_t to_stride, int width, int height) {
#if HWY_TARGET == HWY_SCALAR
  transpose_rgb_pixels(from, from_stride, reversed, to, to_stride, width, height);
#else
  constexpr int kWhole = 6;  // pixels that 16 bytes lie within
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
        const bool has_room = y + kWhole <= height;  // what is written too much is written anew afterwards
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

HWY_EXPORT(TransposePixels);

TransposeRgb transpose_rgb() {
  return HWY_DYNAMIC_DISPATCH(TransposePixels);
}

}  // namespace dlpipe::augment
#endif  // HWY_ONCE
