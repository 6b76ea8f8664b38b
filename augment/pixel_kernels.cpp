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

/// `count` values through one table: a vector holds 16 of its 256 entries, so each value is looked for in 16 vectors, all
/// but one of which give 0.
HWY_INLINE void LookUpValues(const LookupTable& table, const uint8_t* from, size_t count, uint8_t* to) {
  size_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::ScalableTag<uint8_t> d;
  const size_t lanes = hn::Lanes(d);
  // Of an index with its highest four bits cleared 0..15 stays what it is; all others get the highest bit.
  const auto others_out = hn::Set(d, 0x70);
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    const auto a = hn::LoadU(d, from + i);
    const auto b = hn::LoadU(d, from + i + lanes);
    auto sum_a = hn::Zero(d);
    auto sum_b = hn::Zero(d);
    for (size_t k = 0; k < 16; ++k) {
      const auto part = hn::LoadDup128(d, table.data() + 16 * k);
      const auto begin = hn::Set(d, static_cast<uint8_t>(16 * k));
      sum_a = hn::Or(sum_a, hn::TableLookupBytesOr0(part, hn::SaturatedAdd(hn::Xor(a, begin), others_out)));
      sum_b = hn::Or(sum_b, hn::TableLookupBytesOr0(part, hn::SaturatedAdd(hn::Xor(b, begin), others_out)));
    }
    hn::StoreU(sum_a, d, to + i);
    hn::StoreU(sum_b, d, to + i + lanes);
  }
#endif
  for (; i < count; ++i) to[i] = table[from[i]];
}

void LookUp(const LookupTables& tables, const ConstImageView& in, const ImageView& out) {
  const int channels = in.channels;
  bool is_one = true;
  for (int c = 1; c < channels; ++c) is_one = is_one && tables.of[static_cast<size_t>(c)] == tables.of[0];
  if (is_one) {
    const size_t size = size_t(out.width) * size_t(channels);
    for (int y = 0; y < out.height; ++y) LookUpValues(tables.of[0], in.row(y), size, out.row(y));
    return;
  }
  ForBlocks(in, out, [&](Planes& planes) HWY_ATTR {
    for (int c = 0; c < channels; ++c)
      LookUpValues(tables.of[static_cast<size_t>(c)], planes.of[c], kBlock, planes.of[c]);
  });
}

void PermuteChannels(const std::array<int, 4>& source, const ConstImageView& in, const ImageView& out) {
  ForBlocks(in, out, [&](Planes& planes) HWY_ATTR {
    const Planes whole = planes;
    for (size_t c = 0; c < 4; ++c) std::memcpy(planes.of[c], whole.of[source[c]], sizeof planes.of[c]);
  });
}

void ToLuma(const ConstImageView& in, const ImageView& out) {
  ForBlocks(in, out, [](Planes& planes) HWY_ATTR {
    alignas(64) int32_t gray[kBlock];
    Luma(planes, gray);
    for (int i = 0; i < kBlock; ++i) planes.of[0][i] = static_cast<uint8_t>(gray[i]);
    std::memcpy(planes.of[1], planes.of[0], sizeof planes.of[0]);
    std::memcpy(planes.of[2], planes.of[0], sizeof planes.of[0]);
  });
}

// Pillow's conversions, in its mixture of floats and doubles, which decides what is cut off.
HWY_INLINE void HueAndSaturation(const Planes& planes, int32_t* HWY_RESTRICT hue,
                                 int32_t* HWY_RESTRICT saturation, int32_t* HWY_RESTRICT value) {
  for (int i = 0; i < kBlock; ++i) {
    const int r = planes.of[0][i], g = planes.of[1][i], b = planes.of[2][i];
    const int most = std::max(std::max(r, g), b);
    const int least = std::min(std::min(r, g), b);
    const float span = static_cast<float>(std::max(most - least, 1));
    const float from_r = static_cast<float>(most - r) / span;
    const float from_g = static_cast<float>(most - g) / span;
    const float from_b = static_cast<float>(most - b) / span;
    const auto hue_r = static_cast<double>(from_b - from_g);
    const auto hue_g = static_cast<double>(
        static_cast<float>(2.0 + static_cast<double>(from_r) - static_cast<double>(from_b)));
    const auto hue_b = static_cast<double>(
        static_cast<float>(4.0 + static_cast<double>(from_g) - static_cast<double>(from_r)));
    const double sixths = r == most ? hue_r : (g == most ? hue_g : hue_b);
    const double turned = sixths / 6.0 + 1.0;
    const auto share = static_cast<float>(turned >= 1.0 ? turned - 1.0 : turned);
    const float chroma = span / static_cast<float>(std::max(most, 1));
    const bool is_grey = most == least;
    hue[i] = is_grey ? 0 : static_cast<int32_t>(static_cast<double>(share) * 255.0);
    saturation[i] = is_grey ? 0 : static_cast<int32_t>(static_cast<double>(chroma) * 255.0);
    value[i] = most;
  }
}

HWY_INLINE int32_t RoundedPart(int32_t value, double share) {
  return static_cast<int32_t>(static_cast<double>(static_cast<float>(value * share)) + 0.5);
}

void TurnHue(int shift, const ConstImageView& in, const ImageView& out) {
  ForBlocks(in, out, [shift](Planes& planes) HWY_ATTR {
    alignas(64) int32_t hue[kBlock], saturation[kBlock], value[kBlock];
    HueAndSaturation(planes, hue, saturation, value);
    for (int i = 0; i < kBlock; ++i) {
      const int32_t turned = (hue[i] + shift) & 255;
      const double sixths = static_cast<double>(static_cast<float>(turned)) * 6.0 / 255.0;
      const auto sixth = static_cast<int32_t>(sixths);
      const auto within = static_cast<double>(static_cast<float>(sixths - static_cast<double>(sixth)));
      const auto s = static_cast<double>(static_cast<float>(saturation[i] / 255.0));
      const int32_t v = value[i];
      const int32_t p = RoundedPart(v, 1.0 - s);
      const int32_t q = RoundedPart(v, 1.0 - s * within);
      const int32_t t = RoundedPart(v, 1.0 - s * (1.0 - within));
      const int32_t k = sixth == 6 ? 0 : sixth;
      const int32_t r = k == 0 || k == 5 ? v : (k == 1 ? q : (k == 4 ? t : p));
      const int32_t g = k == 1 || k == 2 ? v : (k == 0 ? t : (k == 3 ? q : p));
      const int32_t b = k == 3 || k == 4 ? v : (k == 2 ? t : (k == 5 ? q : p));
      const bool is_grey = saturation[i] == 0;
      planes.of[0][i] = static_cast<uint8_t>(is_grey ? v : r);
      planes.of[1][i] = static_cast<uint8_t>(is_grey ? v : g);
      planes.of[2][i] = static_cast<uint8_t>(is_grey ? v : b);
    }
  });
}

void FoldValues(int mask, int threshold, const ConstImageView& in, const ImageView& out) {
  const int size = out.width * out.channels;
  const auto most = static_cast<uint8_t>(threshold - 1);
  const auto kept = static_cast<uint8_t>(mask);
  for (int y = 0; y < out.height; ++y) {
    const uint8_t* HWY_RESTRICT from = in.row(y);
    uint8_t* HWY_RESTRICT to = out.row(y);
    if (threshold <= 0) {
      for (int i = 0; i < size; ++i) to[i] = static_cast<uint8_t>((255 - from[i]) & kept);
      continue;
    }
    for (int i = 0; i < size; ++i) {
      const uint8_t value = from[i];
      const auto other = static_cast<uint8_t>(255 - value);
      to[i] = static_cast<uint8_t>((value <= most ? value : other) & kept);
    }
  }
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

}  // namespace HWY_NAMESPACE
}  // namespace dlpipe::augment
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dlpipe::augment {

HWY_EXPORT(LookUp);
HWY_EXPORT(PermuteChannels);
HWY_EXPORT(ToLuma);
HWY_EXPORT(FoldValues);
HWY_EXPORT(TurnHue);
HWY_EXPORT(BlendLuma);
HWY_EXPORT(BlendImages);
HWY_EXPORT(MixChannels);
HWY_EXPORT(LumaSum);
HWY_EXPORT(Convolve);
HWY_EXPORT(Convolve3x3);
HWY_EXPORT(AverageTaps);

void average_taps(const ConstImageView& with_margins, std::span<const TapOffset> taps, const ImageView& out) {
  HWY_DYNAMIC_DISPATCH(AverageTaps)(with_margins, taps, out);
}

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
  HWY_DYNAMIC_DISPATCH(LookUp)(tables, in, out);
}
void permute_channels(const std::array<int, 4>& source, const ConstImageView& in, const ImageView& out) {
  HWY_DYNAMIC_DISPATCH(PermuteChannels)(source, in, out);
}
void to_luma(const ConstImageView& in, const ImageView& out) {
  HWY_DYNAMIC_DISPATCH(ToLuma)(in, out);
}
void turn_hue(int shift, const ConstImageView& in, const ImageView& out) {
  HWY_DYNAMIC_DISPATCH(TurnHue)(shift, in, out);
}
void fold_values(int mask, int threshold, const ConstImageView& in, const ImageView& out) {
  HWY_DYNAMIC_DISPATCH(FoldValues)(mask, threshold, in, out);
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
