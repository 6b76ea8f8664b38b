// What looks up bytes in tables of 256 by one instruction: Highway 1.0 leaves this target out unless it is asked for.
#define HWY_WANT_AVX3_DL 1

#include "dlpipe/augment/pixel_kernels.h"

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "dlpipe/augment/pixel_kernels.cpp"
#include <hwy/foreach_target.h>  // NOLINT: includes this file once a target

#include <hwy/highway.h>

#include "dlpipe/augment/planes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dlpipe::augment {
namespace HWY_NAMESPACE {

HWY_INLINE void Luma(const Planes& planes, int32_t* HWY_RESTRICT gray) {
  for (int i = 0; i < kBlock; ++i) {
    gray[i] = (planes.of[0][i] * 19595 + planes.of[1][i] * 38470 + planes.of[2][i] * 7471 + 0x8000) >> 16;
  }
}

HWY_INLINE uint8_t Blend(int from, int to, float alpha) {
  const float value = static_cast<float>(from) + alpha * static_cast<float>(to - from);
  return static_cast<uint8_t>(static_cast<int>(std::min(std::max(value, 0.0f), 255.0f)));
}

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3_DL
/// Values through one table, 64 at a time: the processor looks up seven of eight bits in each half. Answers how many.
HWY_INLINE size_t LookUpVectors(const LookupTable& table, const uint8_t* from, size_t count, uint8_t* to) {
  const auto part = [&](size_t k) HWY_ATTR { return _mm512_loadu_si512(table.data() + 64 * k); };
  const __m512i t0 = part(0), t1 = part(1), t2 = part(2), t3 = part(3);
  size_t i = 0;
  for (; i + 64 <= count; i += 64) {
    const __m512i values = _mm512_loadu_si512(from + i);
    const __m512i low = _mm512_permutex2var_epi8(t0, values, t1);
    const __m512i high = _mm512_permutex2var_epi8(t2, values, t3);
    _mm512_storeu_si512(to + i, _mm512_mask_blend_epi8(_mm512_movepi8_mask(values), low, high));
  }
  return i;
}
#elif HWY_TARGET != HWY_SCALAR
/// As many of the values as fill vectors, through one table. A vector holds 16 of its 256 entries, so each value is looked
/// for in 16 vectors, all but one of which give 0. Answers how many.
HWY_INLINE size_t LookUpVectors(const LookupTable& table, const uint8_t* from, size_t count, uint8_t* to) {
  const hn::ScalableTag<uint8_t> d;
  const size_t lanes = hn::Lanes(d);
  // Of an index with its highest four bits cleared 0..15 stays what it is; all others get the highest bit.
  const auto others_out = hn::Set(d, 0x70);
  size_t i = 0;
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
  return i;
}
#else
HWY_INLINE size_t LookUpVectors(const LookupTable&, const uint8_t*, size_t, uint8_t*) {
  return 0;
}
#endif

HWY_INLINE void LookUpValues(const LookupTable& table, const uint8_t* from, size_t count, uint8_t* to) {
  for (size_t i = LookUpVectors(table, from, count, to); i < count; ++i) to[i] = table[from[i]];
}

void LookUp(const LookupTables& tables, const ConstImageView& in, const ImageView& out) {
  const int channels = in.channels;
  bool is_one = true;
  for (int c = 1; c < channels; ++c) is_one = is_one && tables.of[static_cast<size_t>(c)] == tables.of[0];
  if (is_one) {
    const Rows rows = LongRows(in, out);
    const size_t size = size_t(rows.width) * size_t(channels);
    for (int y = 0; y < rows.count; ++y) LookUpValues(tables.of[0], in.row(y), size, out.row(y));
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

void FoldValues(int mask, int threshold, const ConstImageView& in, const ImageView& out) {
  const Rows rows = LongRows(in, out);
  const int size = rows.width * out.channels;
  const auto most = static_cast<uint8_t>(threshold - 1);
  const auto kept = static_cast<uint8_t>(mask);
  for (int y = 0; y < rows.count; ++y) {
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
    const uint8_t* a = other.row(y);
    const uint8_t* b = in.row(y);
    uint8_t* to = out.row(y);  // may be `a`
    for (int i = 0; i < size; ++i) to[i] = Blend(a[i], b[i], alpha);
  }
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

}  // namespace HWY_NAMESPACE
}  // namespace dlpipe::augment
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dlpipe::augment {

HWY_EXPORT(LookUp);
HWY_EXPORT(PermuteChannels);
HWY_EXPORT(ToLuma);
HWY_EXPORT(FoldValues);
HWY_EXPORT(BlendLuma);
HWY_EXPORT(BlendImages);
HWY_EXPORT(LumaSum);

void blend_luma(const ConstImageView& in, float alpha, const ImageView& out) {
  HWY_DYNAMIC_DISPATCH(BlendLuma)(in, alpha, out);
}
void blend_images(const ConstImageView& other, const ConstImageView& in, float alpha, const ImageView& out) {
  HWY_DYNAMIC_DISPATCH(BlendImages)(other, in, alpha, out);
}
uint64_t luma_sum(const ConstImageView& in) {
  return HWY_DYNAMIC_DISPATCH(LumaSum)(in);
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

}  // namespace dlpipe::augment
#endif  // HWY_ONCE
