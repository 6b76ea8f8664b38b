#include "dlpipe/augment/pixel_kernels.h"

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "dlpipe/augment/pixel_kernels.cpp"
#include <hwy/foreach_target.h>  // NOLINT: includes this file once a target

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace dlpipe::augment {
namespace HWY_NAMESPACE {

// Pixels taken apart into channels, so that the loops over them are over consecutive values.
constexpr int kBlock = 128;
struct Planes {
  alignas(64) uint8_t of[4][kBlock];
};

void TakeApart(const uint8_t* from, int channels, int count, Planes& planes) {
#if HWY_TARGET != HWY_SCALAR
  namespace hn = hwy::HWY_NAMESPACE;
  if (channels == 3 && count == kBlock) {
    const hn::ScalableTag<uint8_t> d;
    for (size_t i = 0; i < kBlock; i += hn::Lanes(d)) {
      hn::Vec<decltype(d)> r, g, b;
      hn::LoadInterleaved3(d, from + 3 * i, r, g, b);
      hn::Store(r, d, planes.of[0] + i);
      hn::Store(g, d, planes.of[1] + i);
      hn::Store(b, d, planes.of[2] + i);
    }
    return;
  }
#endif
  for (int i = 0; i < count; ++i) {
    for (int c = 0; c < channels; ++c) planes.of[c][i] = *from++;
  }
}

void PutTogether(const Planes& planes, int channels, int count, uint8_t* to) {
#if HWY_TARGET != HWY_SCALAR
  namespace hn = hwy::HWY_NAMESPACE;
  if (channels == 3 && count == kBlock) {
    const hn::ScalableTag<uint8_t> d;
    for (size_t i = 0; i < kBlock; i += hn::Lanes(d)) {
      hn::StoreInterleaved3(hn::Load(d, planes.of[0] + i), hn::Load(d, planes.of[1] + i),
                            hn::Load(d, planes.of[2] + i), d, to + 3 * i);
    }
    return;
  }
#endif
  for (int i = 0; i < count; ++i) {
    for (int c = 0; c < channels; ++c) *to++ = planes.of[c][i];
  }
}

/// Calls body(planes) for every block of the picture's pixels; what it leaves there is written to `out`.
template <class Body>
HWY_INLINE void ForBlocks(const ConstImageView& in, const ImageView& out, const Body& body) {
  Planes planes;
  std::memset(&planes, 0, sizeof planes);
  for (int y = 0; y < out.height; ++y) {
    for (int x = 0; x < out.width; x += kBlock) {
      const int count = std::min(kBlock, out.width - x);
      TakeApart(in.row(y) + ptrdiff_t{x} * in.channels, in.channels, count, planes);
      body(planes);
      PutTogether(planes, out.channels, count, out.row(y) + ptrdiff_t{x} * out.channels);
    }
  }
}

HWY_INLINE void Luma(const Planes& planes, int32_t* HWY_RESTRICT gray) {
  for (int i = 0; i < kBlock; ++i) {
    gray[i] = (planes.of[0][i] * 19595 + planes.of[1][i] * 38470 + planes.of[2][i] * 7471 + 0x8000) >> 16;
  }
}

HWY_INLINE uint8_t Blend(int from, int to, float alpha) {
  const float value = static_cast<float>(from) + alpha * static_cast<float>(to - from);
  return static_cast<uint8_t>(static_cast<int>(std::min(std::max(value, 0.0f), 255.0f)));
}

void BlendLuma(const ConstImageView& in, float alpha, const ImageView& out) {
  ForBlocks(in, out, [alpha](Planes& planes) HWY_ATTR {
    alignas(64) int32_t gray[kBlock];
    Luma(planes, gray);
    for (int c = 0; c < 3; ++c) {
      uint8_t* HWY_RESTRICT plane = planes.of[c];
      for (int i = 0; i < kBlock; ++i) plane[i] = Blend(gray[i], plane[i], alpha);
    }
  });
}

void BlendImages(const ConstImageView& other, const ConstImageView& in, float alpha, const ImageView& out) {
  const int size = out.width * out.channels;
  for (int y = 0; y < out.height; ++y) {
    const uint8_t* HWY_RESTRICT a = other.row(y);
    const uint8_t* HWY_RESTRICT b = in.row(y);
    uint8_t* HWY_RESTRICT to = out.row(y);
    for (int i = 0; i < size; ++i) to[i] = Blend(a[i], b[i], alpha);
  }
}

void MixChannels(const ColorMatrix& matrix, const ConstImageView& in, const ImageView& out) {
  ForBlocks(in, out, [&](Planes& planes) HWY_ATTR {
    Planes mixed;
    for (size_t c = 0; c < 3; ++c) {
      const auto [r, g, b, offset] = matrix[c];
      for (int i = 0; i < kBlock; ++i) {
        const int32_t sum =
            (planes.of[0][i] * r + planes.of[1][i] * g + planes.of[2][i] * b + offset + 0x8000) >> 16;
        mixed.of[c][i] = static_cast<uint8_t>(std::min(std::max(sum, 0), 255));
      }
    }
    std::memcpy(planes.of[0], mixed.of[0], sizeof planes.of[0] * 3);
  });
}

uint64_t LumaSum(const ConstImageView& in) {
  uint64_t sum = 0;
  for (int y = 0; y < in.height; ++y) {
    if (in.channels < 3) {
      for (int x = 0; x < in.width; ++x) sum += in.row(y)[x * in.channels];
      continue;
    }
    for (int x = 0; x < in.width; x += kBlock) {
      const int count = std::min(kBlock, in.width - x);
      Planes planes;
      std::memset(&planes, 0, sizeof planes);
      TakeApart(in.row(y) + ptrdiff_t{x} * in.channels, in.channels, count, planes);
      alignas(64) int32_t gray[kBlock];
      Luma(planes, gray);
      int32_t block = 0;
      for (int i = 0; i < kBlock; ++i) block += gray[i];  // of zeros, where there is no pixel
      sum += static_cast<uint64_t>(block);
    }
  }
  return sum;
}

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

}  // namespace HWY_NAMESPACE
}  // namespace dlpipe::augment
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dlpipe::augment {

HWY_EXPORT(BlendLuma);
HWY_EXPORT(BlendImages);
HWY_EXPORT(MixChannels);
HWY_EXPORT(LumaSum);
HWY_EXPORT(Convolve);
HWY_EXPORT(Convolve3x3);

void blend_luma(const ConstImageView& in, float alpha, const ImageView& out) {
  HWY_DYNAMIC_DISPATCH(BlendLuma)(in, alpha, out);
}
void blend_images(const ConstImageView& other, const ConstImageView& in, float alpha, const ImageView& out) {
  HWY_DYNAMIC_DISPATCH(BlendImages)(other, in, alpha, out);
}
void mix_channels(const ColorMatrix& matrix, const ConstImageView& in, const ImageView& out) {
  HWY_DYNAMIC_DISPATCH(MixChannels)(matrix, in, out);
}
uint64_t luma_sum(const ConstImageView& in) {
  return HWY_DYNAMIC_DISPATCH(LumaSum)(in);
}
void convolve3x3(const ConstImageView& with_margins, const std::array<int, 9>& weights, int divisor,
                 int offset, const ImageView& out) {
  HWY_DYNAMIC_DISPATCH(Convolve3x3)(with_margins, weights, divisor, offset, out);
}

void convolve(const ConstImageView& with_margins, std::span<const uint16_t> across,
              std::span<const uint16_t> down, const ImageView& out, std::vector<std::byte>& work) {
  constexpr size_t kPiece = 64;
  const size_t row = size_t(with_margins.width) * size_t(with_margins.channels) + 2 * kPiece;
  if (work.size() < row * sizeof(uint16_t)) work.resize(row * sizeof(uint16_t));
  HWY_DYNAMIC_DISPATCH(Convolve)(with_margins, across, down, out, reinterpret_cast<uint16_t*>(work.data()));
}

void look_up(const LookupTables& tables, const ConstImageView& in, const ImageView& out) {
  const int channels = in.channels;
  for (int y = 0; y < out.height; ++y) {
    const uint8_t* from = in.row(y);
    uint8_t* to = out.row(y);
    if (channels == 3) {
      const uint8_t* const r = tables.of[0].data();
      const uint8_t* const g = tables.of[1].data();
      const uint8_t* const b = tables.of[2].data();
      for (int x = 0; x < out.width; ++x, from += 3, to += 3) {
        to[0] = r[from[0]];
        to[1] = g[from[1]];
        to[2] = b[from[2]];
      }
      continue;
    }
    for (int x = 0; x < out.width; ++x) {
      for (int c = 0; c < channels; ++c) *to++ = tables.of[static_cast<size_t>(c)][*from++];
    }
  }
}

std::array<Histogram, 4> histograms(const ConstImageView& in) {
  std::array<Histogram, 4> seen{};
  for (int y = 0; y < in.height; ++y) {
    const uint8_t* from = in.row(y);
    for (int x = 0; x < in.width; ++x) {
      for (int c = 0; c < in.channels; ++c) ++seen[static_cast<size_t>(c)][*from++];
    }
  }
  return seen;
}

ConstImageView with_margin(const ConstImageView& in, const Region& region, const Region& window, int width,
                           int height, int reach_x, int reach_y, Border border,
                           std::vector<std::byte>& work) {
  const auto seen = [border](int i, int size) {
    if (border == Border::kReplicate || size == 1) return std::clamp(i, 0, size - 1);
    while (i < 0 || i >= size) i = i < 0 ? -i : 2 * (size - 1) - i;
    return i;
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
