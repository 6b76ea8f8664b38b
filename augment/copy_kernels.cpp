#include "dlpipe/augment/copy_kernels.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "dlpipe/augment/copy_kernels.cpp"
#include <hwy/foreach_target.h>  // NOLINT: includes this file once a target

#include <hwy/highway.h>

#ifndef DLPIPE_AUGMENT_COPY_TABLES
#define DLPIPE_AUGMENT_COPY_TABLES
namespace dlpipe::augment {

/// [output][input]: which byte of three vectors' sixteen pixels goes where; 0x80: none of this input.
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

}  // namespace dlpipe::augment
#endif

HWY_BEFORE_NAMESPACE();
namespace dlpipe::augment {
namespace HWY_NAMESPACE {

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

}  // namespace HWY_NAMESPACE
}  // namespace dlpipe::augment
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dlpipe::augment {

HWY_EXPORT(MirrorRows);

MirrorRgb mirror_rgb() {
  return HWY_DYNAMIC_DISPATCH(MirrorRows);
}

}  // namespace dlpipe::augment
#endif  // HWY_ONCE
