// What the kernels of pixels and of hues share: blocks of pixels taken apart into channels. Included once for each
// instruction set (Highway's foreach_target), so with a guard of its own kind.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <hwy/highway.h>

#include "dlpipe/base/image.h"

#if defined(DLPIPE_AUGMENT_PLANES_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef DLPIPE_AUGMENT_PLANES_INL
#undef DLPIPE_AUGMENT_PLANES_INL
#else
#define DLPIPE_AUGMENT_PLANES_INL
#endif

HWY_BEFORE_NAMESPACE();
namespace dlpipe::augment {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Pixels taken apart into channels, so that the loops over them are over consecutive values; no vector is longer.
constexpr int kBlock = 128;
struct Planes {
  alignas(64) uint8_t of[4][kBlock];
};

#if HWY_TARGET != HWY_SCALAR
HWY_INLINE void TakeApart3(const uint8_t* from, Planes& planes) {
  const hn::CappedTag<uint8_t, kBlock> d;
  for (size_t i = 0; i < kBlock; i += hn::Lanes(d)) {
    hn::Vec<decltype(d)> r, g, b;
    hn::LoadInterleaved3(d, from + 3 * i, r, g, b);
    hn::Store(r, d, planes.of[0] + i);
    hn::Store(g, d, planes.of[1] + i);
    hn::Store(b, d, planes.of[2] + i);
  }
}

HWY_INLINE void PutTogether3(const Planes& planes, uint8_t* to) {
  const hn::CappedTag<uint8_t, kBlock> d;
  for (size_t i = 0; i < kBlock; i += hn::Lanes(d)) {
    hn::StoreInterleaved3(hn::Load(d, planes.of[0] + i), hn::Load(d, planes.of[1] + i),
                          hn::Load(d, planes.of[2] + i), d, to + 3 * i);
  }
}
#endif

inline void TakeApart(const uint8_t* from, int channels, int count, Planes& planes) {
#if HWY_TARGET != HWY_SCALAR
  if (channels == 3 && count == kBlock) return TakeApart3(from, planes);
  if (channels == 3) {
    uint8_t whole[3 * kBlock] = {};
    std::memcpy(whole, from, size_t{3} * static_cast<size_t>(count));
    return TakeApart3(whole, planes);
  }
#endif
  for (int i = 0; i < count; ++i) {
    for (int c = 0; c < channels; ++c) planes.of[c][i] = *from++;
  }
}

inline void PutTogether(const Planes& planes, int channels, int count, uint8_t* to) {
#if HWY_TARGET != HWY_SCALAR
  if (channels == 3 && count == kBlock) return PutTogether3(planes, to);
  if (channels == 3) {
    uint8_t whole[3 * kBlock];
    PutTogether3(planes, whole);
    std::memcpy(to, whole, size_t{3} * static_cast<size_t>(count));
    return;
  }
#endif
  for (int i = 0; i < count; ++i) {
    for (int c = 0; c < channels; ++c) *to++ = planes.of[c][i];
  }
}

/// Rows that follow each other without a gap are one long row.
struct Rows {
  int count = 0;
  int width = 0;
};
HWY_INLINE Rows LongRows(const ConstImageView& in, const ImageView& out) {
  const ptrdiff_t row = ptrdiff_t{out.width} * out.channels;
  if (in.stride == row && out.stride == row) return {1, out.width * out.height};
  return {out.height, out.width};
}

/// Calls body(planes) for every block of the picture's pixels; what it leaves there is written to `out`.
template <class Body>
HWY_INLINE void ForBlocks(const ConstImageView& in, const ImageView& out, const Body& body) {
  Planes planes;
  std::memset(&planes, 0, sizeof planes);
  const Rows rows = LongRows(in, out);
  for (int y = 0; y < rows.count; ++y) {
    for (int x = 0; x < rows.width; x += kBlock) {
      const int count = std::min(kBlock, rows.width - x);
      TakeApart(in.row(y) + ptrdiff_t{x} * in.channels, in.channels, count, planes);
      body(planes);
      PutTogether(planes, out.channels, count, out.row(y) + ptrdiff_t{x} * out.channels);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace dlpipe::augment
HWY_AFTER_NAMESPACE();
#endif
