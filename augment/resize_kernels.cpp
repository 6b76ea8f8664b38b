#include "dlpipe/augment/resize_kernels.h"

#include <cstring>

#include "dlpipe/augment/resize_axis.h"

// Vectors here are made of 16-byte blocks whose number is known when compiling: not so for SVE and RVV; such
// machines run the NEON or the plain code.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "dlpipe/augment/resize_kernels.cpp"
#include <hwy/foreach_target.h>  // NOLINT: includes this file once a target

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace dlpipe::augment {
namespace HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR

// The same without vectors: what a CPU below SSSE3 runs, and what the tests compare the vectors with.

uint32_t PairProducts(uint32_t weights, uint32_t first, uint32_t second) {
  return first * (weights & 0xffff) + second * (weights >> 16);
}

void VerticalRow(const uint8_t* const* rows, const WeightPair* weights, int pairs, size_t size,
                 uint8_t* out) {
  for (size_t i = 0; i < size; ++i) {
    uint32_t sum = kWeightHalf;
    for (int p = 0; p < pairs; ++p) {
      const uint32_t first = rows[2 * p][i];
      const uint32_t second = rows[2 * p + 1][i];
      sum += PairProducts(weights[p].low, first, second);
      sum += PairProducts(weights[p].high, first, second) << 15;
    }
    out[i] = static_cast<uint8_t>(sum >> kWeightBits);
  }
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
          sum += PairProducts(weights[p].high, from[0], from[channels]) << 15;
        }
        *to++ = static_cast<uint8_t>(sum >> kWeightBits);
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

/// sum + a[2i] * b[2i] + a[2i+1] * b[2i+1] in lane i, of signed 16-bit lanes.
HWY_INLINE V32 AddPairProducts(V8 a, V32 b, V32 sum) {
#if HWY_ARCH_X86 && HWY_TARGET != HWY_EMU128
  V32 unused = hn::Zero(d32);
  return hn::ReorderWidenMulAccumulate(d32, hn::BitCast(d16, a), hn::BitCast(d16, b), sum, unused);
#else
  const V32 pairs = hn::BitCast(d32, a);
  const V32 even =
      hn::Mul(hn::ShiftRight<16>(hn::ShiftLeft<16>(pairs)), hn::ShiftRight<16>(hn::ShiftLeft<16>(b)));
  return hn::Add(hn::Add(sum, even), hn::Mul(hn::ShiftRight<16>(pairs), hn::ShiftRight<16>(b)));
#endif
}

HWY_INLINE V32 Broadcast(uint32_t pair) {
  return hn::Set(d32, static_cast<int32_t>(pair));
}

HWY_INLINE V32 Half() {
  return hn::Set(d32, kWeightHalf);
}

/// The rounded pixel of the sums of low parts (which hold the rounding half already) and high parts.
HWY_INLINE V32 Rounded(V32 low, V32 high) {
  return hn::ShiftRight<kWeightBits>(hn::Add(low, hn::ShiftLeft<15>(high)));
}

/// Sixteen bytes of table in every block.
HWY_INLINE V8 BlockTable(const uint8_t (&table)[16]) {
  return hn::LoadDup128(d8, table);
}

constexpr uint8_t kNone = 0x80;  // a zero byte
// In each block, bytes 0, 2, 4 ... of 16-bit lanes go to the lower or upper half.
alignas(16) constexpr uint8_t kEvenToLower[16] = {0,     2,     4,     6,     8,     10,    12,    14,
                                                  kNone, kNone, kNone, kNone, kNone, kNone, kNone, kNone};
alignas(16) constexpr uint8_t kEvenToUpper[16] = {kNone, kNone, kNone, kNone, kNone, kNone, kNone, kNone,
                                                  0,     2,     4,     6,     8,     10,    12,    14};

/// The last bytes of a row that is shorter than a vector.
void VerticalFewBytes(const uint8_t* const* rows, const WeightPair* weights, int pairs, size_t size,
                      uint8_t* out) {
  for (size_t i = 0; i < size; ++i) {
    uint32_t low = kWeightHalf;
    uint32_t high = 0;
    for (int p = 0; p < pairs; ++p) {
      const uint32_t a = rows[2 * p][i];
      const uint32_t b = rows[2 * p + 1][i];
      low += a * (weights[p].low & 0xffff) + b * (weights[p].low >> 16);
      high += a * (weights[p].high & 0xffff) + b * (weights[p].high >> 16);
    }
    out[i] = static_cast<uint8_t>((low + (high << 15)) >> kWeightBits);
  }
}

/// kPairs 0: any number.
template <int kPairs>
void VerticalBytes(const uint8_t* const* HWY_RESTRICT rows, const WeightPair* HWY_RESTRICT weights,
                   int any_pairs, size_t size, uint8_t* HWY_RESTRICT out) {
  const int pairs = kPairs == 0 ? any_pairs : kPairs;
  const V8 to_lower = BlockTable(kEvenToLower);
  const V8 to_upper = BlockTable(kEvenToUpper);
  const V8 zero = hn::Zero(d8);
  for (size_t at = 0; at < size; at += kBytes) {
    const size_t i = HWY_MIN(at, size - kBytes);  // the last vector overlaps the one before it
    V32 low[4] = {Half(), Half(), Half(), Half()};
    V32 high[4] = {hn::Zero(d32), hn::Zero(d32), hn::Zero(d32), hn::Zero(d32)};
    for (int p = 0; p < pairs; ++p) {
      const V8 a = hn::LoadU(d8, rows[2 * p] + i);
      const V8 b = hn::LoadU(d8, rows[2 * p + 1] + i);
      const V8 lower = hn::InterleaveLower(d8, a, b);
      const V8 upper = hn::InterleaveUpper(d8, a, b);
      const V8 ab[4] = {hn::InterleaveLower(d8, lower, zero), hn::InterleaveUpper(d8, lower, zero),
                        hn::InterleaveLower(d8, upper, zero), hn::InterleaveUpper(d8, upper, zero)};
      const V32 low_weights = Broadcast(weights[p].low);
      const V32 high_weights = Broadcast(weights[p].high);
      for (int q = 0; q < 4; ++q) {
        low[q] = AddPairProducts(ab[q], low_weights, low[q]);
        high[q] = AddPairProducts(ab[q], high_weights, high[q]);
      }
    }
    const auto lower = hn::ReorderDemote2To(d16, Rounded(low[0], high[0]), Rounded(low[1], high[1]));
    const auto upper = hn::ReorderDemote2To(d16, Rounded(low[2], high[2]), Rounded(low[3], high[3]));
    hn::StoreU(hn::Or(hn::TableLookupBytesOr0(hn::BitCast(d8, lower), to_lower),
                      hn::TableLookupBytesOr0(hn::BitCast(d8, upper), to_upper)),
               d8, out + i);
  }
}

void VerticalRow(const uint8_t* const* rows, const WeightPair* weights, int pairs, size_t size,
                 uint8_t* out) {
  if (size < kBytes) return VerticalFewBytes(rows, weights, pairs, size, out);
  if (pairs == 1) return VerticalBytes<1>(rows, weights, pairs, size, out);
  if (pairs == 2) return VerticalBytes<2>(rows, weights, pairs, size, out);
  VerticalBytes<0>(rows, weights, pairs, size, out);
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

/// How four pixels of kChannels bytes become pairs of 16-bit lanes, and how four results become pixels.
template <int kChannels>
struct PixelTables;
template <>
struct PixelTables<3> {
  alignas(16) static constexpr uint8_t kTaps01[16] = {0, kNone, 3, kNone, 1,     kNone, 4,     kNone,
                                                      2, kNone, 5, kNone, kNone, kNone, kNone, kNone};
  alignas(16) static constexpr uint8_t kTaps23[16] = {6, kNone, 9,  kNone, 7,     kNone, 10,    kNone,
                                                      8, kNone, 11, kNone, kNone, kNone, kNone, kNone};
  alignas(16) static constexpr uint8_t kFirst[16] = {0,     2,     4,     8,     10,    12,    kNone, kNone,
                                                     kNone, kNone, kNone, kNone, kNone, kNone, kNone, kNone};
  alignas(16) static constexpr uint8_t kSecond[16] = {kNone, kNone, kNone, kNone, kNone, kNone, 0,     2,
                                                      4,     8,     10,    12,    kNone, kNone, kNone, kNone};
};
template <>
struct PixelTables<4> {
  alignas(16) static constexpr uint8_t kTaps01[16] = {0, kNone, 4, kNone, 1, kNone, 5, kNone,
                                                      2, kNone, 6, kNone, 3, kNone, 7, kNone};
  alignas(16) static constexpr uint8_t kTaps23[16] = {8,  kNone, 12, kNone, 9,  kNone, 13, kNone,
                                                      10, kNone, 14, kNone, 11, kNone, 15, kNone};
  alignas(16) static constexpr uint8_t kFirst[16] = {0,     2,     4,     6,     8,     10,    12,    14,
                                                     kNone, kNone, kNone, kNone, kNone, kNone, kNone, kNone};
  alignas(16) static constexpr uint8_t kSecond[16] = {kNone, kNone, kNone, kNone, kNone, kNone, kNone, kNone,
                                                      0,     2,     4,     6,     8,     10,    12,    14};
};

/// One output pixel of kRowGroup rows: `result[v]` holds kBlocks rows, a lane per channel. kPairs 0: any
/// number.
template <int kChannels, int kPairs>
HWY_INLINE void ResizePixel(const uint8_t* const* rows, ptrdiff_t offset, const WeightPair* weights,
                            int any_pairs, V8 taps01, V8 taps23, V32* result) {
  constexpr int kVectors = kRowGroup / kBlocks;
  const int pairs = kPairs == 0 ? any_pairs : kPairs;
  V32 low[kVectors];
  V32 high[kVectors];
  for (int v = 0; v < kVectors; ++v) {
    low[v] = Half();
    high[v] = hn::Zero(d32);
  }
  for (int p = 0; p < pairs; p += 2) {
    const V32 low01 = Broadcast(weights[p].low);
    const V32 high01 = Broadcast(weights[p].high);
    for (int v = 0; v < kVectors; ++v) {
      const V8 pixels = LoadBlocks(rows + v * kBlocks, offset + ptrdiff_t{p} * 2 * kChannels);
      const V8 first = hn::TableLookupBytesOr0(pixels, taps01);
      low[v] = AddPairProducts(first, low01, low[v]);
      high[v] = AddPairProducts(first, high01, high[v]);
      if (kPairs != 1) {
        const V8 second = hn::TableLookupBytesOr0(pixels, taps23);
        low[v] = AddPairProducts(second, Broadcast(weights[p + 1].low), low[v]);
        high[v] = AddPairProducts(second, Broadcast(weights[p + 1].high), high[v]);
      }
    }
  }
  for (int v = 0; v < kVectors; ++v) result[v] = Rounded(low[v], high[v]);
}

template <int kChannels, int kPairs>
void HorizontalRows(const uint8_t* const* rows, const HorizontalTable& table, uint8_t* const* out) {
  constexpr int kVectors = kRowGroup / kBlocks;
  using Tables = PixelTables<kChannels>;
  const V8 taps01 = BlockTable(Tables::kTaps01);
  const V8 taps23 = BlockTable(Tables::kTaps23);
  const V8 to_first = BlockTable(Tables::kFirst);
  const V8 to_second = BlockTable(Tables::kSecond);
  // Copies: a byte written through `out` might else change what these point to, for all the compiler knows.
  const uint8_t* const from[kRowGroup] = {rows[0], rows[1], rows[2], rows[3]};
  uint8_t* const to[kRowGroup] = {out[0], out[1], out[2], out[3]};
  const int32_t* offsets = table.offsets;
  const WeightPair* weights = table.weights;
  const int pairs = kPairs == 0 ? table.pairs : kPairs;
  const size_t row_bytes = static_cast<size_t>(table.count) * kChannels;
  for (size_t at = 0; at < row_bytes; at += 4 * kChannels, offsets += 4) {
    V32 result[4][kVectors];
    for (int i = 0; i < 4; ++i, weights += pairs) {
      ResizePixel<kChannels, kPairs>(from, offsets[i], weights, pairs, taps01, taps23, result[i]);
    }
    alignas(64) uint8_t blocks[kRowGroup][16];
    for (int v = 0; v < kVectors; ++v) {
      const auto first = hn::ReorderDemote2To(d16, result[0][v], result[1][v]);
      const auto second = hn::ReorderDemote2To(d16, result[2][v], result[3][v]);
      hn::StoreU(hn::Or(hn::TableLookupBytesOr0(hn::BitCast(d8, first), to_first),
                        hn::TableLookupBytesOr0(hn::BitCast(d8, second), to_second)),
                 d8, blocks[v * kBlocks]);
    }
    if (at + 16 <= row_bytes) {
      for (int r = 0; r < kRowGroup; ++r) std::memcpy(to[r] + at, blocks[r], 16);
    } else {
      for (int r = 0; r < kRowGroup; ++r) std::memcpy(to[r] + at, blocks[r], row_bytes - at);
    }
  }
}

void Horizontal(const uint8_t* const* rows, int channels, const HorizontalTable& table, uint8_t* const* out) {
  if (channels == 3) {
    if (table.pairs == 1) return HorizontalRows<3, 1>(rows, table, out);
    if (table.pairs == 2) return HorizontalRows<3, 2>(rows, table, out);
    return HorizontalRows<3, 0>(rows, table, out);
  }
  if (table.pairs == 1) return HorizontalRows<4, 1>(rows, table, out);
  if (table.pairs == 2) return HorizontalRows<4, 2>(rows, table, out);
  return HorizontalRows<4, 0>(rows, table, out);
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
