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

// A sum of products of 8.8 bits with weights of 0.16 bits, in 8.8 bits: each product is cut off, so half of a last bit per
// tap is added.
void Convolve(const ConstImageView& in, std::span<const uint16_t> across, std::span<const uint16_t> down,
              const ImageView& out, uint16_t* HWY_RESTRICT rows) {
  constexpr int kPiece = 64;
  const int size = out.width * out.channels;
  const int wide = in.width * in.channels;
  for (int y = 0; y < out.height; ++y) {
    // Down first, into one row with margins.
    for (int i = 0; i < wide; i += kPiece) {
      const int count = std::min(kPiece, wide - i);
      alignas(64) uint16_t sum[kPiece];
      for (int j = 0; j < kPiece; ++j) sum[j] = static_cast<uint16_t>(down.size() / 2);
      for (size_t t = 0; t < down.size(); ++t) {
        const uint8_t* HWY_RESTRICT from = in.row(y + static_cast<int>(t)) + i;
        const uint32_t weight = down[t];
        if (count == kPiece) {
          for (int j = 0; j < kPiece; ++j)
            sum[j] = static_cast<uint16_t>(sum[j] + ((static_cast<uint32_t>(from[j] << 8) * weight) >> 16));
        } else {
          for (int j = 0; j < count; ++j)
            sum[j] = static_cast<uint16_t>(sum[j] + ((static_cast<uint32_t>(from[j] << 8) * weight) >> 16));
        }
      }
      std::memcpy(rows + i, sum, sizeof sum);
    }
    uint8_t* HWY_RESTRICT to = out.row(y);
    for (int i = 0; i < size; i += kPiece) {
      alignas(64) uint16_t sum[kPiece];
      for (int j = 0; j < kPiece; ++j) sum[j] = static_cast<uint16_t>(128 + across.size() / 2);
      for (size_t t = 0; t < across.size(); ++t) {
        const uint16_t* HWY_RESTRICT from = rows + i + static_cast<ptrdiff_t>(t) * in.channels;
        const uint32_t weight = across[t];
        for (int j = 0; j < kPiece; ++j)
          sum[j] = static_cast<uint16_t>(sum[j] + ((static_cast<uint32_t>(from[j]) * weight) >> 16));
      }
      const int count = std::min(kPiece, size - i);
      for (int j = 0; j < count; ++j) to[i + j] = static_cast<uint8_t>(sum[j] >> 8);
    }
  }
}

// The same where all weights of a direction are equal: a product is the value's alone, so each is made once, and sums down go
// from row to row.
void ConvolveEven(const ConstImageView& in, std::span<const uint16_t> across, std::span<const uint16_t> down,
                  const ImageView& out, uint16_t* HWY_RESTRICT sums, uint16_t* HWY_RESTRICT scaled) {
  constexpr int kPiece = 64;
  const int size = out.width * out.channels;
  const int wide = in.width * in.channels;
  const uint32_t down_weight = down[0];
  const uint32_t across_weight = across[0];
  const auto rows = static_cast<int>(down.size());
  const auto add_row = [&](int y) HWY_ATTR {
    const uint8_t* HWY_RESTRICT from = in.row(y);
    for (int i = 0; i < wide; ++i)
      sums[i] = static_cast<uint16_t>(sums[i] + ((static_cast<uint32_t>(from[i] << 8) * down_weight) >> 16));
  };
  for (int i = 0; i < wide; ++i) sums[i] = static_cast<uint16_t>(down.size() / 2);
  for (int y = 0; y < rows - 1; ++y) add_row(y);
  for (int y = 0; y < out.height; ++y) {
    add_row(y + rows - 1);
    const uint8_t* HWY_RESTRICT gone = in.row(y);
    for (int i = 0; i < wide; ++i) {
      scaled[i] = static_cast<uint16_t>((static_cast<uint32_t>(sums[i]) * across_weight) >> 16);
      sums[i] = static_cast<uint16_t>(sums[i] - ((static_cast<uint32_t>(gone[i] << 8) * down_weight) >> 16));
    }
    uint8_t* HWY_RESTRICT to = out.row(y);
    for (int i = 0; i < size; i += kPiece) {
      alignas(64) uint16_t sum[kPiece];
      for (int j = 0; j < kPiece; ++j) sum[j] = static_cast<uint16_t>(128 + across.size() / 2);
      for (size_t t = 0; t < across.size(); ++t) {
        const uint16_t* HWY_RESTRICT from = scaled + i + static_cast<ptrdiff_t>(t) * in.channels;
        for (int j = 0; j < kPiece; ++j) sum[j] = static_cast<uint16_t>(sum[j] + from[j]);
      }
      const int count = std::min(kPiece, size - i);
      for (int j = 0; j < count; ++j) to[i + j] = static_cast<uint8_t>(sum[j] >> 8);
    }
  }
}

void Convolve3x3(const ConstImageView& in, const std::array<int, 9>& weights, int divisor, int offset,
                 const ImageView& out) {
  constexpr int kPiece = 64;
  const int size = out.width * out.channels;
  // (2 sum + divisor) / (2 divisor), rounded down, as a product: exact, since sums are below 2^16 and divisors small.
  const float scale = 1.0f / static_cast<float>(2 * divisor);
  for (int y = 0; y < out.height; ++y) {
    for (int i = 0; i < size; i += kPiece) {
      const int count = std::min(kPiece, size - i);
      alignas(64) int32_t sum[kPiece];
      for (int j = 0; j < kPiece; ++j) sum[j] = 0;
      for (int t = 0; t < 9; ++t) {
        const uint8_t* HWY_RESTRICT from = in.row(y + t / 3) + i + ptrdiff_t{t % 3} * in.channels;
        const int weight = weights[static_cast<size_t>(t)];
        if (count == kPiece) {
          for (int j = 0; j < kPiece; ++j) sum[j] += weight * from[j];
        } else {
          for (int j = 0; j < count; ++j) sum[j] += weight * from[j];
        }
      }
      uint8_t* HWY_RESTRICT to = out.row(y) + i;
      for (int j = 0; j < count; ++j) {
        // Half a step between two results keeps the product clear of rounding.
        const float doubled = static_cast<float>(2 * (sum[j] + offset * divisor) + divisor) + 0.5f;
        to[j] = static_cast<uint8_t>(static_cast<int>(std::min(std::max(doubled * scale, 0.0f), 255.0f)));
      }
    }
  }
}

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

HWY_EXPORT(Convolve);
HWY_EXPORT(ConvolveEven);
HWY_EXPORT(Convolve3x3);
HWY_EXPORT(AverageTaps);
HWY_EXPORT(Median);

bool median_small(const ConstImageView& with_margins, int side, const ImageView& out) {
  return HWY_DYNAMIC_DISPATCH(Median)(with_margins, side, out);
}

void average_taps(const ConstImageView& with_margins, std::span<const TapOffset> taps, const ImageView& out) {
  HWY_DYNAMIC_DISPATCH(AverageTaps)(with_margins, taps, out);
}

void convolve3x3(const ConstImageView& with_margins, const std::array<int, 9>& weights, int divisor,
                 int offset, const ImageView& out) {
  HWY_DYNAMIC_DISPATCH(Convolve3x3)(with_margins, weights, divisor, offset, out);
}

void convolve(const ConstImageView& with_margins, std::span<const uint16_t> across,
              std::span<const uint16_t> down, const ImageView& out, std::vector<std::byte>& work) {
  constexpr size_t kPiece = 64;
  const size_t row = size_t(with_margins.width) * size_t(with_margins.channels) + 2 * kPiece;
  if (work.size() < 2 * row * sizeof(uint16_t)) work.resize(2 * row * sizeof(uint16_t));
  auto* const rows = reinterpret_cast<uint16_t*>(work.data());
  const auto is_even = [](std::span<const uint16_t> weights) {
    return std::all_of(weights.begin(), weights.end(), [&](uint16_t weight) { return weight == weights[0]; });
  };
  if (is_even(across) && is_even(down)) {
    HWY_DYNAMIC_DISPATCH(ConvolveEven)(with_margins, across, down, out, rows, rows + row);
  } else {
    HWY_DYNAMIC_DISPATCH(Convolve)(with_margins, across, down, out, rows);
  }
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
  for (int y = 0; y < high; ++y) {
    const uint8_t* from = in.row(seen(window.y - reach_y + y, height) - region.y);
    uint8_t* to = begin + size_t(y) * stride;
    std::memcpy(to + ptrdiff_t{first} * channels, from + ptrdiff_t{left + first - region.x} * channels,
                size_t(last - first) * size_t(channels));
    for (int x = 0; x < wide; ++x) {
      if (x == first) x = last;
      if (x >= wide) break;
      std::memcpy(to + ptrdiff_t{x} * channels, from + ptrdiff_t{seen(left + x, width) - region.x} * channels,
                  size_t(channels));
    }
  }
  return {begin, wide, high, channels, static_cast<ptrdiff_t>(stride)};
}

}  // namespace dlpipe::augment
#endif  // HWY_ONCE
