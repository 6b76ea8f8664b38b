#include "augment/resize_kernels.h"

#include <algorithm>
#include <cstring>

// Vectors here consist of 16-byte blocks, and their number is known at compile time; this is not the case for SVE and RVV,
// whose machines run the NEON or the plain code.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "augment/resize_kernels.cpp"
#include <hwy/foreach_target.h>  // NOLINT: includes this file once a target

#include <hwy/highway.h>

#include "augment/pair_products-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dlpipe::augment {
namespace HWY_NAMESPACE {

HWY_INLINE uint8_t ClippedPixel(uint32_t sum) {
  return static_cast<uint8_t>(std::clamp(static_cast<int32_t>(sum) >> kWeightBits, 0, 255));
}

HWY_INLINE uint32_t PairProducts(uint32_t weights, uint32_t first, uint32_t second) {
  const auto weight = [](uint32_t half) { return static_cast<uint32_t>(static_cast<int16_t>(half)); };
  return first * weight(weights & 0xffff) + second * weight(weights >> 16);
}

/// Without vectors: all rows if the machine has none, else those that are shorter than a vector.
void VerticalFewBytes(const uint8_t* const* rows, const WeightPair* weights, int pairs, size_t size,
                      uint8_t* out) {
  for (size_t i = 0; i < size; ++i) {
    uint32_t sum = kWeightHalf;
    for (int p = 0; p < pairs; ++p) {
      sum += PairProducts(weights[p].low, rows[2 * p][i], rows[2 * p + 1][i]);
      sum += PairProducts(weights[p].high, rows[2 * p][i], rows[2 * p + 1][i]) << kLowBits;
    }
    out[i] = ClippedPixel(sum);
  }
}

#if HWY_TARGET == HWY_SCALAR

// The same without vectors: CPUs without SSSE3 run this, and the tests compare the vectors with it.

void VerticalRow(const uint8_t* const* rows, const WeightPair* weights, int pairs, bool, size_t size,
                 uint8_t* out) {
  VerticalFewBytes(rows, weights, pairs, size, out);
}

void Horizontal(const uint8_t* const* rows, int channels, const HorizontalTable& table, uint8_t* const* out) {
  for (int r = 0; r < kRowGroup; ++r) {
    uint8_t* to = out[r];
    for (int x = 0; x < table.count; ++x) {
      const WeightPair* weights = table.weights + ptrdiff_t{x} * table.pairs;
      for (int c = 0; c < channels; ++c) {
        const uint8_t* from = rows[r] + table.offsets[x] + c;
        uint32_t sum = kWeightHalf;
        for (int p = 0; p < table.pairs; ++p, from += 2 * channels) {
          sum += PairProducts(weights[p].low, from[0], from[channels]);
          sum += PairProducts(weights[p].high, from[0], from[channels]) << kLowBits;
        }
        *to++ = ClippedPixel(sum);
      }
    }
  }
}

void Interleave(const uint8_t* const* rows, size_t size, uint8_t* out) {
  for (size_t i = 0; i < size; ++i) {
    for (int r = 0; r < 4; ++r) out[4 * i + r] = rows[r][i];
  }
}

void Deinterleave(const uint8_t* in, size_t size, uint8_t* const* rows) {
  for (size_t i = 0; i < size; ++i) {
    for (int r = 0; r < 4; ++r) rows[r][i] = in[4 * i + r];
  }
}

#else

namespace hn = hwy::HWY_NAMESPACE;

using D8 = hn::ScalableTag<uint8_t>;
using D16 = hn::ScalableTag<int16_t>;
using D32 = hn::ScalableTag<int32_t>;
using V8 = hn::VFromD<D8>;
using V32 = hn::VFromD<D32>;
constexpr D8 d8;
constexpr D16 d16;
constexpr D32 d32;
constexpr size_t kBytes = hn::MaxLanes(D8());
constexpr int kBlocks = static_cast<int>(kBytes / 16);

/// AddPairProducts of pairs that are held as bytes and as 32-bit lanes.
HWY_INLINE V32 AddPairs(V8 pixels, V32 weights, V32 sum) {
  return AddPairProducts(hn::BitCast(d16, pixels), hn::BitCast(d16, weights), sum);
}

HWY_INLINE V32 Broadcast(uint32_t pair) {
  return hn::Set(d32, static_cast<int32_t>(pair));
}

/// Sums of products with weights' high parts and, with kLow, with their low parts.
template <bool kLow>
struct Sums {
  V32 low, high;

  HWY_INLINE Sums()
      : low(hn::Set(d32, kWeightHalf)), high(hn::Set(d32, kLow ? 0 : kWeightHalf >> kLowBits)) {}
  HWY_INLINE void add(V8 pixels, const WeightPair& pair) {
    if (kLow) low = AddPairs(pixels, Broadcast(pair.low), low);
    high = AddPairs(pixels, Broadcast(pair.high), high);
  }
  HWY_INLINE V32 sum() const {
    const V32 shifted = hn::ShiftLeft<kLowBits>(high);
    return kLow ? hn::Add(low, shifted) : shifted;
  }
};

/// The pixels of four vectors of sums, clipped; in each block four bytes of each, in order.
HWY_INLINE V8 Pixels(V32 sum0, V32 sum1, V32 sum2, V32 sum3) {
  const auto lower =
      hn::ReorderDemote2To(d16, hn::ShiftRight<kWeightBits>(sum0), hn::ShiftRight<kWeightBits>(sum1));
  const auto upper =
      hn::ReorderDemote2To(d16, hn::ShiftRight<kWeightBits>(sum2), hn::ShiftRight<kWeightBits>(sum3));
#if HWY_ARCH_X86 && HWY_TARGET != HWY_EMU128
  // Highway 1.0.3 has this instruction only followed by another one, which puts the blocks in another order.
#if HWY_MAX_BYTES == 16
  return V8{_mm_packus_epi16(lower.raw, upper.raw)};
#elif HWY_MAX_BYTES == 32
  return V8{_mm256_packus_epi16(lower.raw, upper.raw)};
#else
  return V8{_mm512_packus_epi16(lower.raw, upper.raw)};
#endif
#else
  const hn::Half<D8> half;
  return hn::Combine(d8, hn::DemoteTo(half, upper), hn::DemoteTo(half, lower));
#endif
}

/// Sixteen bytes of table in every block.
HWY_INLINE V8 BlockTable(const uint8_t (&table)[16]) {
  return hn::LoadDup128(d8, table);
}

constexpr uint8_t kNone = 0x80;  // a zero byte

/// kPairs 0: any number. Without kLow: all low parts are 0.
template <int kPairs, bool kLow>
void VerticalBytes(const uint8_t* const* HWY_RESTRICT rows, const WeightPair* HWY_RESTRICT weights,
                   int any_pairs, size_t size, uint8_t* HWY_RESTRICT out) {
  const int pairs = kPairs == 0 ? any_pairs : kPairs;
  const V8 zero = hn::Zero(d8);
  for (size_t at = 0; at < size; at += kBytes) {
    const size_t i = HWY_MIN(at, size - kBytes);  // the last vector overlaps the one before it
    Sums<kLow> sums[4];
    for (int p = 0; p < pairs; ++p) {
      const V8 a = hn::LoadU(d8, rows[2 * p] + i);
      const V8 b = hn::LoadU(d8, rows[2 * p + 1] + i);
      const V8 lower = hn::InterleaveLower(d8, a, b);
      const V8 upper = hn::InterleaveUpper(d8, a, b);
      sums[0].add(hn::InterleaveLower(d8, lower, zero), weights[p]);
      sums[1].add(hn::InterleaveUpper(d8, lower, zero), weights[p]);
      sums[2].add(hn::InterleaveLower(d8, upper, zero), weights[p]);
      sums[3].add(hn::InterleaveUpper(d8, upper, zero), weights[p]);
    }
    hn::StoreU(Pixels(sums[0].sum(), sums[1].sum(), sums[2].sum(), sums[3].sum()), d8, out + i);
  }
}

template <bool kLow>
void VerticalPairs(const uint8_t* const* rows, const WeightPair* weights, int pairs, size_t size,
                   uint8_t* out) {
  if (pairs == 1) return VerticalBytes<1, kLow>(rows, weights, pairs, size, out);
  if (pairs == 2) return VerticalBytes<2, kLow>(rows, weights, pairs, size, out);
  VerticalBytes<0, kLow>(rows, weights, pairs, size, out);
}

void VerticalRow(const uint8_t* const* rows, const WeightPair* weights, int pairs, bool has_low, size_t size,
                 uint8_t* out) {
  if (size < kBytes) return VerticalFewBytes(rows, weights, pairs, size, out);
  if (has_low) return VerticalPairs<true>(rows, weights, pairs, size, out);
  VerticalPairs<false>(rows, weights, pairs, size, out);
}

/// Sixteen bytes of each of kBlocks rows, a row per block.
HWY_INLINE V8 LoadBlocks(const uint8_t* const* rows, ptrdiff_t offset) {
#if HWY_MAX_BYTES == 16
  return hn::LoadU(d8, rows[0] + offset);
#else
  const hn::Full128<uint8_t> d128;
  const auto block = [&](int b) HWY_ATTR { return hn::LoadU(d128, rows[b] + offset); };
#if HWY_MAX_BYTES == 32
  return hn::Combine(d8, block(1), block(0));
#else
  const hn::Half<D8> d256;
  return hn::Combine(d8, hn::Combine(d256, block(3), block(2)), hn::Combine(d256, block(1), block(0)));
#endif
#endif
}

/// Byte shuffles: taps 0 and 1, and taps 2 and 3, of each channel to pairs of 16-bit lanes; for three channels
/// also four results to pixels.
template <int kChannels>
struct PixelTables;
template <>
struct PixelTables<3> {
  alignas(16) static constexpr uint8_t kTaps01[16] = {0, kNone, 3, kNone, 1,     kNone, 4,     kNone,
                                                      2, kNone, 5, kNone, kNone, kNone, kNone, kNone};
  alignas(16) static constexpr uint8_t kTaps23[16] = {6, kNone, 9,  kNone, 7,     kNone, 10,    kNone,
                                                      8, kNone, 11, kNone, kNone, kNone, kNone, kNone};
  alignas(16) static constexpr uint8_t kPixels[16] = {0,  1,  2,  4,  5,     6,     8,     9,
                                                      10, 12, 13, 14, kNone, kNone, kNone, kNone};
};
template <>
struct PixelTables<4> {
  alignas(16) static constexpr uint8_t kTaps01[16] = {0, kNone, 4, kNone, 1, kNone, 5, kNone,
                                                      2, kNone, 6, kNone, 3, kNone, 7, kNone};
  alignas(16) static constexpr uint8_t kTaps23[16] = {8,  kNone, 12, kNone, 9,  kNone, 13, kNone,
                                                      10, kNone, 14, kNone, 11, kNone, 15, kNone};
};

/// The sums of one output pixel of kRowGroup rows: `sums[v]` holds kBlocks rows, a lane per channel. kPairs 0: any
/// number. Without kLow: all low parts are 0.
template <int kChannels, int kPairs, bool kLow>
HWY_INLINE void ResizePixel(const uint8_t* const* rows, ptrdiff_t offset, const WeightPair* weights,
                            int any_pairs, V32* sums) {
  constexpr int kVectors = kRowGroup / kBlocks;
  const int pairs = kPairs == 0 ? any_pairs : kPairs;
  const V8 taps01 = BlockTable(PixelTables<kChannels>::kTaps01);
  const V8 taps23 = BlockTable(PixelTables<kChannels>::kTaps23);
  Sums<kLow> all[kVectors];
  for (int p = 0; p < pairs; p += 2) {
    for (int v = 0; v < kVectors; ++v) {
      const V8 pixels = LoadBlocks(rows + v * kBlocks, offset + ptrdiff_t{p} * 2 * kChannels);
      all[v].add(hn::TableLookupBytesOr0(pixels, taps01), weights[p]);
      if (kPairs != 1) all[v].add(hn::TableLookupBytesOr0(pixels, taps23), weights[p + 1]);
    }
  }
  for (int v = 0; v < kVectors; ++v) sums[v] = all[v].sum();
}

/// Four output pixels of kRowGroup rows, to the first bytes of a block for each row.
template <int kChannels, int kPairs, bool kLow>
HWY_INLINE void ResizeFour(const uint8_t* const* rows, const int32_t* offsets, const WeightPair* weights,
                           int pairs, uint8_t (*blocks)[16]) {
  constexpr int kVectors = kRowGroup / kBlocks;
  using Tables = PixelTables<kChannels>;
  V32 sums[4][kVectors];  // one by one, not in a loop: so they stay in registers
  ResizePixel<kChannels, kPairs, kLow>(rows, offsets[0], weights, pairs, sums[0]);
  ResizePixel<kChannels, kPairs, kLow>(rows, offsets[1], weights + pairs, pairs, sums[1]);
  ResizePixel<kChannels, kPairs, kLow>(rows, offsets[2], weights + ptrdiff_t{2} * pairs, pairs, sums[2]);
  ResizePixel<kChannels, kPairs, kLow>(rows, offsets[3], weights + ptrdiff_t{3} * pairs, pairs, sums[3]);
  for (int v = 0; v < kVectors; ++v) {
    V8 pixels = Pixels(sums[0][v], sums[1][v], sums[2][v], sums[3][v]);
    if constexpr (kChannels == 3) pixels = hn::TableLookupBytesOr0(pixels, BlockTable(Tables::kPixels));
    hn::StoreU(pixels, d8, blocks[v * kBlocks]);
  }
}

/// Output pixels [first, last); `last` is the row's last one, or both are multiples of four.
template <int kChannels, int kPairs, bool kLow>
void HorizontalRows(const uint8_t* const* rows, const HorizontalTable& table, int first, int last,
                    uint8_t* const* out) {
  // Copies: otherwise the compiler must assume that a byte written through `out` changes the memory that these point to.
  const uint8_t* const from[kRowGroup] = {rows[0], rows[1], rows[2], rows[3]};
  uint8_t* const to[kRowGroup] = {out[0], out[1], out[2], out[3]};
  const int pairs = kPairs == 0 ? table.pairs : kPairs;
  const int32_t* offsets = table.offsets + first;
  const WeightPair* weights = table.weights + ptrdiff_t{first} * pairs;
  const size_t row_bytes = static_cast<size_t>(table.count) * kChannels;
  const size_t end = static_cast<size_t>(last) * kChannels;
  for (size_t at = static_cast<size_t>(first) * kChannels; at < end;
       at += 4 * kChannels, offsets += 4, weights += ptrdiff_t{4} * pairs) {
    alignas(64) uint8_t blocks[kRowGroup][16];
    ResizeFour<kChannels, kPairs, kLow>(from, offsets, weights, pairs, blocks);
    if (at + 16 <= row_bytes) {
      for (int r = 0; r < kRowGroup; ++r) std::memcpy(to[r] + at, blocks[r], 16);
    } else {
      for (int r = 0; r < kRowGroup; ++r) std::memcpy(to[r] + at, blocks[r], row_bytes - at);
    }
  }
}

template <int kChannels, int kPairs>
void HorizontalRuns(const uint8_t* const* rows, const HorizontalTable& table, uint8_t* const* out) {
  const auto has_low = [&](int x) {
    uint32_t four = 0;
    std::memcpy(&four, table.has_low + x, 4);
    return four != 0;
  };
  for (int first = 0; first < table.count;) {
    const bool low = has_low(first);
    int last = first + 4;
    while (last < table.count && has_low(last) == low) last += 4;
    last = std::min(last, table.count);
    if (low) {
      HorizontalRows<kChannels, kPairs, true>(rows, table, first, last, out);
    } else {
      HorizontalRows<kChannels, kPairs, false>(rows, table, first, last, out);
    }
    first = last;
  }
}

void Horizontal(const uint8_t* const* rows, int channels, const HorizontalTable& table, uint8_t* const* out) {
  if (channels == 3) {
    if (table.pairs == 1) return HorizontalRuns<3, 1>(rows, table, out);
    if (table.pairs == 2) return HorizontalRuns<3, 2>(rows, table, out);
    return HorizontalRuns<3, 0>(rows, table, out);
  }
  if (table.pairs == 1) return HorizontalRuns<4, 1>(rows, table, out);
  if (table.pairs == 2) return HorizontalRuns<4, 2>(rows, table, out);
  return HorizontalRuns<4, 0>(rows, table, out);
}

void Interleave(const uint8_t* const* HWY_RESTRICT rows, size_t size, uint8_t* HWY_RESTRICT out) {
  size_t i = 0;
  for (; i + kBytes <= size; i += kBytes) {
    hn::StoreInterleaved4(hn::LoadU(d8, rows[0] + i), hn::LoadU(d8, rows[1] + i), hn::LoadU(d8, rows[2] + i),
                          hn::LoadU(d8, rows[3] + i), d8, out + 4 * i);
  }
  for (; i < size; ++i) {
    for (int r = 0; r < 4; ++r) out[4 * i + r] = rows[r][i];
  }
}

void Deinterleave(const uint8_t* HWY_RESTRICT in, size_t size, uint8_t* const* HWY_RESTRICT rows) {
  size_t i = 0;
  for (; i + kBytes <= size; i += kBytes) {
    V8 row0, row1, row2, row3;
    hn::LoadInterleaved4(d8, in + 4 * i, row0, row1, row2, row3);
    hn::StoreU(row0, d8, rows[0] + i);
    hn::StoreU(row1, d8, rows[1] + i);
    hn::StoreU(row2, d8, rows[2] + i);
    hn::StoreU(row3, d8, rows[3] + i);
  }
  for (; i < size; ++i) {
    for (int r = 0; r < 4; ++r) rows[r][i] = in[4 * i + r];
  }
}

#endif  // HWY_TARGET

}  // namespace HWY_NAMESPACE
}  // namespace dlpipe::augment
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dlpipe::augment {

HWY_EXPORT(Horizontal);
HWY_EXPORT(VerticalRow);
HWY_EXPORT(Interleave);
HWY_EXPORT(Deinterleave);

ResizeKernels resize_kernels() {
  return {HWY_DYNAMIC_DISPATCH(Horizontal), HWY_DYNAMIC_DISPATCH(VerticalRow),
          HWY_DYNAMIC_DISPATCH(Interleave), HWY_DYNAMIC_DISPATCH(Deinterleave)};
}

}  // namespace dlpipe::augment
#endif  // HWY_ONCE
