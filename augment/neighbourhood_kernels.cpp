#include "dlpipe/augment/neighbourhood_kernels.h"

#include <algorithm>
#include <cstring>

#include "dlpipe/augment/copy.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "dlpipe/augment/neighbourhood_kernels.cpp"
#include <hwy/foreach_target.h>  // NOLINT: includes this file once a target

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace dlpipe::augment {
namespace HWY_NAMESPACE {

void AverageTaps(const ConstImageView& in, std::span<const TapOffset> taps, const ImageView& out) {
  constexpr int kPiece = 64;
  const int size = out.width * out.channels;
  const auto count = static_cast<uint32_t>(taps.size());
  // sum / count as sum * (2^24 / count rounded up) / 2^24: exact for sums below 2^16.
  const uint32_t scale = ((1u << 24) + count - 1) / count;
  for (int y = 0; y < out.height; ++y) {
    for (int i = 0; i < size; i += kPiece) {
      const int piece = std::min(kPiece, size - i);
      alignas(64) uint16_t sum[kPiece];
      for (int j = 0; j < kPiece; ++j) sum[j] = static_cast<uint16_t>(count / 2);
      for (const TapOffset& tap : taps) {
        const uint8_t* HWY_RESTRICT from = in.row(y + tap.y) + i + ptrdiff_t{tap.x} * out.channels;
        if (piece == kPiece) {
          for (int j = 0; j < kPiece; ++j) sum[j] = static_cast<uint16_t>(sum[j] + from[j]);
        } else {
          for (int j = 0; j < piece; ++j) sum[j] = static_cast<uint16_t>(sum[j] + from[j]);
        }
      }
      uint8_t* HWY_RESTRICT to = out.row(y) + i;
      for (int j = 0; j < piece; ++j) to[j] = static_cast<uint8_t>((uint64_t{sum[j]} * scale) >> 24);
    }
  }
}

namespace hn = hwy::HWY_NAMESPACE;

template <class V>
HWY_INLINE void InOrder(V& low, V& high) {
  const V lower = hn::Min(low, high);
  high = hn::Max(low, high);
  low = lower;
}

// The median of kAll values, of which a[0] to a[kHeld - 1] are held: neither the least nor the greatest of more than half of all
// values is the median. Both go, and the next value comes, until three are left.
template <int kAll, int kHeld, class V, class Load>
HWY_INLINE V MedianOf(V* HWY_RESTRICT a, const Load& load) {
  if constexpr (kHeld == 3) {
    InOrder(a[0], a[2]);
    InOrder(a[0], a[1]);
    return hn::Min(a[1], a[2]);
  } else {
    for (int i = 0; i < kHeld / 2; ++i) InOrder(a[i], a[kHeld - 1 - i]);
    for (int i = 1; i < (kHeld + 1) / 2; ++i) InOrder(a[0], a[i]);
    for (int i = kHeld / 2; i < kHeld - 1; ++i) InOrder(a[i], a[kHeld - 1]);
    a[0] = load(2 * (kAll / 2 + 2) - kHeld);
    return MedianOf<kAll, kHeld - 1>(a, load);
  }
}

template <int kSide>
void Medians(const ConstImageView& in, const ImageView& out) {
  const hn::ScalableTag<uint8_t> d;
  using V = hn::Vec<decltype(d)>;
  constexpr int kAll = kSide * kSide;
  constexpr int kHeld = kAll / 2 + 2;
  const int size = out.width * out.channels;
  const auto lanes = static_cast<int>(hn::Lanes(d));
  for (int y = 0; y < out.height; ++y) {
    const uint8_t* rows[kSide];
    for (int dy = 0; dy < kSide; ++dy) rows[dy] = in.row(y + dy);
    uint8_t* const to = out.row(y);
    for (int next = 0; next < size; next += lanes) {
      const int i = std::min(next, size - lanes);  // the last vector may do some again
      const auto load = [&](int t) HWY_ATTR {
        return hn::LoadU(d, rows[t / kSide] + i + ptrdiff_t{t % kSide} * in.channels);
      };
      V held[kHeld];
      for (int t = 0; t < kHeld; ++t) held[t] = load(t);
      hn::StoreU(MedianOf<kAll, kHeld>(held, load), d, to + i);
    }
  }
}

bool Median(const ConstImageView& in, int side, const ImageView& out) {
  if (out.width * out.channels < static_cast<int>(hn::Lanes(hn::ScalableTag<uint8_t>()))) return false;
  if (side == 3) Medians<3>(in, out);
  if (side == 5) Medians<5>(in, out);
  return side == 3 || side == 5;
}

}  // namespace HWY_NAMESPACE
}  // namespace dlpipe::augment
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dlpipe::augment {

HWY_EXPORT(AverageTaps);
HWY_EXPORT(Median);

bool median_small(const ConstImageView& with_margins, int side, const ImageView& out) {
  return HWY_DYNAMIC_DISPATCH(Median)(with_margins, side, out);
}

void average_taps(const ConstImageView& with_margins, std::span<const TapOffset> taps, const ImageView& out) {
  HWY_DYNAMIC_DISPATCH(AverageTaps)(with_margins, taps, out);
}

ConstImageView with_margin(const ConstImageView& in, const Region& region, const Region& window, int width,
                           int height, int reach_x, int reach_y, Border border,
                           std::vector<std::byte>& work) {
  const auto seen = [border](int i, int size) {
    return border == Border::kReplicate ? std::clamp(i, 0, size - 1) : reflected(i, size);
  };
  const int channels = in.channels;
  const int wide = window.width + 2 * reach_x;
  const int high = window.height + 2 * reach_y;
  constexpr size_t kPadding = 64;
  const size_t stride = size_t(wide) * size_t(channels);
  if (work.size() < stride * size_t(high) + kPadding) work.resize(stride * size_t(high) + kPadding);
  uint8_t* const begin = reinterpret_cast<uint8_t*>(work.data());
  const int left = window.x - reach_x;
  const int first = std::clamp(-left, 0, wide);  // columns [first, last) lie in the picture
  const int last = std::clamp(width - left, first, wide);
  const auto copy_pixel = [channels](const uint8_t* pixel, uint8_t* place) {
    for (int c = 0; c < channels; ++c) place[c] = pixel[c];
  };
  for (int y = 0; y < high; ++y) {
    const uint8_t* from = in.row(seen(window.y - reach_y + y, height) - region.y);
    uint8_t* to = begin + size_t(y) * stride;
    std::memcpy(to + ptrdiff_t{first} * channels, from + ptrdiff_t{left + first - region.x} * channels,
                size_t(last - first) * size_t(channels));
    for (int x = 0; x < wide; ++x) {
      if (x == first) x = last;
      if (x >= wide) break;
      copy_pixel(from + ptrdiff_t{seen(left + x, width) - region.x} * channels, to + ptrdiff_t{x} * channels);
    }
  }
  return {begin, wide, high, channels, static_cast<ptrdiff_t>(stride)};
}

}  // namespace dlpipe::augment
#endif  // HWY_ONCE
