#include "io/data/codec/coef/kernels.h"

#include <algorithm>
#include <cstring>

#include "arithmetic/coefficients.h"

// Vectors here consist of 16-byte blocks, and their number is known at compile time; this is not the case for SVE and RVV.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "io/data/codec/coef/kernels.cpp"
#include <hwy/foreach_target.h>  // NOLINT: includes this file once a target

#include <hwy/highway.h>

#ifndef DLPIPE_COEF_BLOCK_TABLES
#define DLPIPE_COEF_BLOCK_TABLES
namespace dlpipe::data::coef {

/// [output][input]: where the bytes of two rows are among sixteen zigzag positions; 0x80: elsewhere.
struct Shuffles {
  alignas(16) uint8_t at[4][4][16];
};
constexpr Shuffles make_shuffles() {
  Shuffles all{};
  for (auto& output : all.at) {
    for (auto& input : output) {
      for (uint8_t& index : input) index = 0x80;
    }
  }
  for (size_t zigzag = 0; zigzag < 64; ++zigzag) {
    const size_t natural = kZigzag[zigzag];
    all.at[natural / 16][zigzag / 16][natural % 16] = static_cast<uint8_t>(zigzag % 16);
  }
  return all;
}
inline constexpr Shuffles kShuffles = make_shuffles();

// jidctint.c's constants in 13 bits of fraction, summed up for each output: an odd output is a sum over
// inputs 1, 3, 5, 7, an even one over 0, 4 and 2, 6. Sums of integers: the same as libjpeg's factored form.
inline constexpr int kFraction = 13;
inline constexpr int kPass1 = 2;  // bits that the first pass keeps

}  // namespace dlpipe::data::coef
#endif

HWY_BEFORE_NAMESPACE();
namespace dlpipe::data::coef {
namespace HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR

void Samples(const TileBlocks& blocks, int first, int count, const QuantTable& quant, uint8_t* out,
             ptrdiff_t stride) {
  scalar_kernels().samples(blocks, first, count, quant, out, stride);
}
void Columns(const uint8_t* near, const uint8_t* far, int count, uint16_t* out) {
  scalar_kernels().columns(near, far, count, out);
}
void Widen(const uint16_t* columns, int count, bool vertical, uint8_t* out) {
  scalar_kernels().widen(columns, count, vertical, out);
}
void Between(const uint8_t* near, const uint8_t* far, int bias, int count, uint8_t* out) {
  scalar_kernels().between(near, far, bias, count, out);
}
void YccToRgb(const uint8_t* y, const uint8_t* cb, const uint8_t* cr, int count, uint8_t* rgb) {
  scalar_kernels().ycc_to_rgb(y, cb, cr, count, rgb);
}

#else

namespace hn = hwy::HWY_NAMESPACE;

// ---- vectors of 8, 16 and 32 bits, and products of pairs with 32-bit sums

using D8 = hn::ScalableTag<uint8_t>;
using D16 = hn::ScalableTag<int16_t>;
using DU16 = hn::ScalableTag<uint16_t>;
using D32 = hn::ScalableTag<int32_t>;
using D64 = hn::ScalableTag<uint64_t>;
using V8 = hn::VFromD<D8>;
using V16 = hn::VFromD<D16>;
using VU16 = hn::VFromD<DU16>;
using V32 = hn::VFromD<D32>;
constexpr D8 d8;
constexpr D16 d16;
constexpr DU16 du16;
constexpr D32 d32;
constexpr D64 d64;

/// a[2i] * b[2i] + a[2i+1] * b[2i+1] + sum[i].
HWY_INLINE V32 AddPairProducts(V16 a, V16 b, V32 sum) {
#if HWY_ARCH_X86 && HWY_TARGET != HWY_EMU128
  V32 unused = hn::Zero(d32);
  return hn::ReorderWidenMulAccumulate(d32, a, b, sum, unused);
#else
  const V32 x = hn::BitCast(d32, a);
  const V32 y = hn::BitCast(d32, b);
  const V32 even =
      hn::Mul(hn::ShiftRight<16>(hn::ShiftLeft<16>(x)), hn::ShiftRight<16>(hn::ShiftLeft<16>(y)));
  return hn::Add(hn::Add(sum, even), hn::Mul(hn::ShiftRight<16>(x), hn::ShiftRight<16>(y)));
#endif
}

/// Alternating constants.
HWY_INLINE V16 Pair(int first, int second) {
  return hn::BitCast(d16, hn::Set(d32, static_cast<int32_t>(static_cast<uint32_t>(first & 0xffff) |
                                                            static_cast<uint32_t>(second) << 16)));
}

/// The four 32-bit lanes that begin and end a block's eight lanes.
struct Wide {
  V32 lower;
  V32 upper;
};
HWY_INLINE Wide operator+(Wide a, Wide b) {
  return {hn::Add(a.lower, b.lower), hn::Add(a.upper, b.upper)};
}
HWY_INLINE Wide operator-(Wide a, Wide b) {
  return {hn::Sub(a.lower, b.lower), hn::Sub(a.upper, b.upper)};
}

/// Two inputs, interleaved.
struct Inputs {
  V16 lower;
  V16 upper;
  HWY_INLINE Inputs(V16 a, V16 b)
      : lower(hn::InterleaveLower(d16, a, b)), upper(hn::InterleaveUpper(d16, a, b)) {}
};
/// a * first + b * second + start.
HWY_INLINE Wide Combine(const Inputs& inputs, int first, int second, V32 start) {
  const V16 factors = Pair(first, second);
  return {AddPairProducts(inputs.lower, factors, start), AddPairProducts(inputs.upper, factors, start)};
}
HWY_INLINE Wide Combine(const Inputs& inputs, int first, int second, Wide start) {
  const V16 factors = Pair(first, second);
  return {AddPairProducts(inputs.lower, factors, start.lower),
          AddPairProducts(inputs.upper, factors, start.upper)};
}

template <int kShift>
HWY_INLINE V16 Descale(Wide sum) {
  return hn::ReorderDemote2To(d16, hn::ShiftRight<kShift>(sum.lower), hn::ShiftRight<kShift>(sum.upper));
}

// ---- blocks: the transform

constexpr int kBlocks = static_cast<int>(hn::MaxLanes(D8()) / 16);  // 16-byte blocks of a vector

/// The inverse transform of one dimension: r[k] holds input k, then output k.
template <int kShift>
HWY_INLINE void Transform(V16 (&r)[8]) {
  const V32 half = hn::Set(d32, 1 << (kShift - 1));
  const V32 zero = hn::Zero(d32);
  const Inputs in04(r[0], r[4]);
  const Inputs in26(r[2], r[6]);
  const Wide even0 = Combine(in04, 1 << kFraction, 1 << kFraction, half);
  const Wide even1 = Combine(in04, 1 << kFraction, -(1 << kFraction), half);
  const Wide even2 = Combine(in26, 4433, -10704, zero);
  const Wide even3 = Combine(in26, 10703, 4433, zero);
  const Inputs in13(r[1], r[3]);
  const Inputs in57(r[5], r[7]);
  const Wide odd0 = Combine(in57, 9633, -11363, Combine(in13, 2260, -6436, zero));
  const Wide odd1 = Combine(in57, 2261, 9633, Combine(in13, 6437, -11362, zero));
  const Wide odd2 = Combine(in57, -11362, -6436, Combine(in13, 9633, -2259, zero));
  const Wide odd3 = Combine(in57, 6437, 2260, Combine(in13, 11363, 9633, zero));
  const Wide sum0 = even0 + even3;
  const Wide sum1 = even1 + even2;
  const Wide sum2 = even1 - even2;
  const Wide sum3 = even0 - even3;
  r[0] = Descale<kShift>(sum0 + odd3);
  r[7] = Descale<kShift>(sum0 - odd3);
  r[1] = Descale<kShift>(sum1 + odd2);
  r[6] = Descale<kShift>(sum1 - odd2);
  r[2] = Descale<kShift>(sum2 + odd1);
  r[5] = Descale<kShift>(sum2 - odd1);
  r[3] = Descale<kShift>(sum3 + odd0);
  r[4] = Descale<kShift>(sum3 - odd0);
}

/// Rows become columns, in every 16-byte block.
HWY_INLINE void Transpose(V16 (&r)[8]) {
  V16 a[8];
  for (int i = 0; i < 4; ++i) {
    a[2 * i] = hn::InterleaveLower(d16, r[i], r[i + 4]);
    a[2 * i + 1] = hn::InterleaveUpper(d16, r[i], r[i + 4]);
  }
  V16 b[8];
  for (int i = 0; i < 4; ++i) {
    b[2 * i] = hn::InterleaveLower(d16, a[i], a[i + 4]);
    b[2 * i + 1] = hn::InterleaveUpper(d16, a[i], a[i + 4]);
  }
  for (int i = 0; i < 4; ++i) {
    r[2 * i] = hn::InterleaveLower(d16, b[i], b[i + 4]);
    r[2 * i + 1] = hn::InterleaveUpper(d16, b[i], b[i + 4]);
  }
}

HWY_INLINE V8 InterleaveLower8(V8 a, V8 b) {
  return hn::InterleaveLower(d8, a, b);
}
HWY_INLINE V8 InterleaveUpper8(V8 a, V8 b) {
  return hn::InterleaveUpper(d8, a, b);
}

/// Samples of r[column] (lanes: rows) with 128 added and clamped; two of them in a vector.
HWY_INLINE V8 Samples2(V16 a, V16 b) {
  const V16 centre = hn::Set(d16, 128);
  const hn::Half<D8> half;
  const auto low = hn::DemoteTo(half, hn::SaturatedAdd(a, centre));
  const auto high = hn::DemoteTo(half, hn::SaturatedAdd(b, centre));
  // Combine puts all samples of `a` before those of `b`, but each 16-byte block of the result needs eight of either.
  if constexpr (kBlocks == 1) {
    return hn::Combine(d8, high, low);
  } else {
    const auto both = hn::BitCast(d64, hn::Combine(d8, high, low));
    if constexpr (kBlocks == 2) {
      alignas(32) static constexpr uint64_t kOrder[4] = {0, 2, 1, 3};
      return hn::BitCast(d8, hn::TableLookupLanes(both, hn::SetTableIndices(d64, kOrder)));
    } else {
      alignas(64) static constexpr uint64_t kOrder[8] = {0, 4, 1, 5, 2, 6, 3, 7};
      return hn::BitCast(d8, hn::TableLookupLanes(both, hn::SetTableIndices(d64, kOrder)));
    }
  }
}

HWY_INLINE void StoreRowPair(V8 rows, uint8_t* out, ptrdiff_t stride) {
  const hn::Half<D64> half;
  const auto lanes = hn::BitCast(d64, rows);
  const auto even = hn::LowerHalf(half, hn::ConcatEven(d64, lanes, lanes));
  const auto odd = hn::LowerHalf(half, hn::ConcatOdd(d64, lanes, lanes));
  hn::StoreU(hn::BitCast(hn::Half<D8>(), even), hn::Half<D8>(), out);
  hn::StoreU(hn::BitCast(hn::Half<D8>(), odd), hn::Half<D8>(), out + stride);
}

/// Converts r[column] (lanes: rows) to eight rows of bytes.
HWY_INLINE void StoreTransposed(const V16 (&r)[8], uint8_t* out, ptrdiff_t stride) {
  const V8 p01 = Samples2(r[0], r[1]);
  const V8 p23 = Samples2(r[2], r[3]);
  const V8 p45 = Samples2(r[4], r[5]);
  const V8 p67 = Samples2(r[6], r[7]);
  const V8 a04 = InterleaveLower8(p01, p45);
  const V8 a15 = InterleaveUpper8(p01, p45);
  const V8 a26 = InterleaveLower8(p23, p67);
  const V8 a37 = InterleaveUpper8(p23, p67);
  const V8 even_low = InterleaveLower8(a04, a26);
  const V8 even_high = InterleaveUpper8(a04, a26);
  const V8 odd_low = InterleaveLower8(a15, a37);
  const V8 odd_high = InterleaveUpper8(a15, a37);
  StoreRowPair(InterleaveLower8(even_low, odd_low), out, stride);
  StoreRowPair(InterleaveUpper8(even_low, odd_low), out + 2 * stride, stride);
  StoreRowPair(InterleaveLower8(even_high, odd_high), out + 4 * stride, stride);
  StoreRowPair(InterleaveUpper8(even_high, odd_high), out + 6 * stride, stride);
}

// ---- blocks: signs, order, dequantisation

/// Sixteen bytes from each of `from`, one of them in each 16-byte block of the vector.
template <int kCount>  // kBlocks: a template, so that branches for other sizes are not compiled
HWY_INLINE V8 Gather(const uint8_t* const (&from)[kCount], int offset) {
  const hn::Full128<uint8_t> d;
  const auto load = [&](int i) HWY_ATTR { return hn::Load(d, from[i] + offset); };
  if constexpr (kCount == 1) {
    return load(0);
  } else if constexpr (kCount == 2) {
    return hn::Combine(d8, load(1), load(0));
  } else {
    const hn::Half<D8> half;
    return hn::Combine(d8, hn::Combine(half, load(3), load(2)), hn::Combine(half, load(1), load(0)));
  }
}

/// Converts |value| << 1 | sign to signed bytes.
HWY_INLINE V8 SignedValues(V8 coded) {
  const V8 size = hn::And(hn::BitCast(d8, hn::ShiftRight<1>(hn::BitCast(du16, coded))), hn::Set(d8, 0x7f));
  const V8 sign = hn::Sub(hn::Zero(d8), hn::And(coded, hn::Set(d8, 1)));
  return hn::Sub(hn::Xor(size, sign), sign);
}

HWY_INLINE V8 Shuffled(V8 values, int output, int input) {
  return hn::TableLookupBytesOr0(values, hn::LoadDup128(d8, kShuffles.at[output][input]));
}

/// Two rows of sixteen bytes.
HWY_INLINE void Widen2(V8 values, V16& first, V16& second) {
  const V8 zero = hn::Zero(d8);
  first = hn::ShiftRight<8>(hn::BitCast(d16, hn::InterleaveLower(d8, zero, values)));
  second = hn::ShiftRight<8>(hn::BitCast(d16, hn::InterleaveUpper(d8, zero, values)));
}

/// Rows of coefficients, not yet dequantised; DC is 0.
HWY_INLINE void LoadRows(const uint8_t* const (&values)[kBlocks], int groups, V16 (&r)[8]) {
  const V8 z0 = SignedValues(Gather(values, 0));
  if (groups <= 2) {
    Widen2(Shuffled(z0, 0, 0), r[0], r[1]);
    Widen2(Shuffled(z0, 1, 0), r[2], r[3]);
    Widen2(Shuffled(z0, 2, 0), r[4], r[5]);
    r[6] = r[7] = hn::Zero(d16);
    return;
  }
  const V8 z1 = SignedValues(Gather(values, 16));
  const V8 z2 = SignedValues(Gather(values, 32));
  const V8 z3 = SignedValues(Gather(values, 48));
  Widen2(hn::Or(hn::Or(Shuffled(z0, 0, 0), Shuffled(z1, 0, 1)), Shuffled(z2, 0, 2)), r[0], r[1]);
  Widen2(
      hn::Or(hn::Or(Shuffled(z0, 1, 0), Shuffled(z1, 1, 1)), hn::Or(Shuffled(z2, 1, 2), Shuffled(z3, 1, 3))),
      r[2], r[3]);
  Widen2(
      hn::Or(hn::Or(Shuffled(z0, 2, 0), Shuffled(z1, 2, 1)), hn::Or(Shuffled(z2, 2, 2), Shuffled(z3, 2, 3))),
      r[4], r[5]);
  Widen2(hn::Or(hn::Or(Shuffled(z1, 3, 1), Shuffled(z2, 3, 2)), Shuffled(z3, 3, 3)), r[6], r[7]);
}

/// Puts values of wide groups into the rows. Rare.
HWY_NOINLINE void PatchRows(const TileBlocks& blocks, int first, int count, const QuantTable& quant,
                            V16 (&r)[8]) {
  constexpr int kRowLanes = 8 * kBlocks;
  alignas(64) int16_t rows[size_t{8} * kRowLanes];
  for (int y = 0; y < 8; ++y) hn::Store(r[y], d16, rows + ptrdiff_t{y} * kRowLanes);
  for (int i = 0; i < blocks.wide_count; ++i) {
    const TileBlocks::Wide& wide = blocks.wide[static_cast<size_t>(i)];
    const int at = wide.block - first;
    if (at < 0 || at >= count) continue;
    rows[(wide.position / 8) * kRowLanes + 8 * at + wide.position % 8] =
        static_cast<int16_t>(wide.value * quant[wide.position]);
  }
  for (int y = 0; y < 8; ++y) r[y] = hn::Load(d16, rows + ptrdiff_t{y} * kRowLanes);
}

/// The sample of a block with a single value, as both passes round it.
HWY_INLINE uint8_t FlatSample(int16_t dc) {
  const int kept = std::clamp(int{dc} << kPass1, -32768, 32767);
  return static_cast<uint8_t>(std::clamp(((kept + 16) >> 5) + 128, 0, 255));
}

void Samples(const TileBlocks& blocks, int first, int count, const QuantTable& quant, uint8_t* out,
             ptrdiff_t stride) {
  for (int begin = first; begin < first + count; begin += kBlocks, out += 8 * kBlocks) {
    const int here = std::min(kBlocks, first + count - begin);
    const uint8_t* values[kBlocks];
    const uint8_t* dc[kBlocks];
    int groups = 0;
    for (int i = 0; i < kBlocks; ++i) {
      const auto number = static_cast<size_t>(begin + std::min(i, here - 1));
      groups = std::max(groups, int{blocks.groups[number]});
      values[i] = blocks.values[number].data();
      dc[i] = reinterpret_cast<const uint8_t*>(blocks.dc[number].data());
    }
    if (groups == 0) {
      for (int i = 0; i < here; ++i) {
        const auto value = static_cast<int16_t>(
            blocks.dc[static_cast<size_t>(begin) + static_cast<size_t>(i)][0] * quant[0]);
        const uint64_t eight = uint64_t{0x0101010101010101} * FlatSample(value);
        for (int y = 0; y < 8; ++y) std::memcpy(out + y * stride + 8 * i, &eight, sizeof eight);
      }
      continue;
    }
    V16 r[8];
    LoadRows(values, groups, r);
    r[0] = hn::Or(r[0], hn::BitCast(d16, Gather(dc, 0)));
    for (int y = 0; y < 8; ++y) r[y] = hn::Mul(r[y], hn::LoadDup128(d16, quant.data() + ptrdiff_t{8} * y));
    if (((blocks.wide_blocks >> begin) & ((1u << here) - 1)) != 0) PatchRows(blocks, begin, here, quant, r);
    Transform<kFraction - kPass1>(r);
    Transpose(r);
    Transform<kFraction + kPass1 + 3>(r);
    StoreTransposed(r, out, stride);
  }
}

// ---- rows: upsampling and colours

constexpr int kLanes16 = static_cast<int>(hn::MaxLanes(D16()));

HWY_INLINE VU16 Widened(const uint8_t* from) {
  const hn::Half<D8> half;
  return hn::PromoteTo(du16, hn::LoadU(half, from));
}

void Columns(const uint8_t* near, const uint8_t* far, int count, uint16_t* out) {
  for (int i = 0; i < count; i += kLanes16) {
    VU16 value = Widened(near + i);
    if (far != nullptr) value = hn::Add(hn::Add(value, hn::Add(value, value)), Widened(far + i));
    hn::StoreU(value, du16, out + i);
  }
}

template <int kShift>
HWY_INLINE void WidenBy(const uint16_t* columns, int count, int even_bias, int odd_bias, uint8_t* out) {
  const VU16 even_half = hn::Set(du16, static_cast<uint16_t>(even_bias));
  const VU16 odd_half = hn::Set(du16, static_cast<uint16_t>(odd_bias));
  for (int i = 0; i < count; i += kLanes16) {
    const VU16 here = hn::LoadU(du16, columns + i);
    const VU16 thrice = hn::Add(here, hn::Add(here, here));
    const VU16 even =
        hn::ShiftRight<kShift>(hn::Add(hn::Add(thrice, hn::LoadU(du16, columns + i - 1)), even_half));
    const VU16 odd =
        hn::ShiftRight<kShift>(hn::Add(hn::Add(thrice, hn::LoadU(du16, columns + i + 1)), odd_half));
    hn::StoreU(hn::BitCast(d8, hn::Or(even, hn::ShiftLeft<8>(odd))), d8, out + ptrdiff_t{2} * i);
  }
}

void Widen(const uint16_t* columns, int count, bool vertical, uint8_t* out) {
  if (vertical) {
    WidenBy<4>(columns, count, 8, 7, out);
  } else {
    WidenBy<2>(columns, count, 1, 2, out);
  }
}

void Between(const uint8_t* near, const uint8_t* far, int bias, int count, uint8_t* out) {
  const VU16 half = hn::Set(du16, static_cast<uint16_t>(bias));
  for (int i = 0; i < count; i += kLanes16) {
    const VU16 value = Widened(near + i);
    const VU16 sum = hn::Add(hn::Add(value, hn::Add(value, value)), hn::Add(Widened(far + i), half));
    const auto quarter = hn::BitCast(d16, hn::ShiftRight<2>(sum));
    hn::StoreU(hn::DemoteTo(hn::Half<D8>(), quarter), hn::Half<D8>(), out + i);
  }
}

/// (factor * value + 2^15) >> 16 for a factor within 16 bits, exactly.
HWY_INLINE V16 Scaled(V16 twice_value, int16_t factor) {
  return hn::ShiftRight<1>(hn::Add(hn::MulHigh(twice_value, hn::Set(d16, factor)), hn::Set(d16, 1)));
}

struct Rgb16 {
  V16 r, g, b;
};

// 91881 = 65536 + 26345 (1.402), 116130 = 2 * 65536 - 14942 (1.772), 46802 = 65536 - 18734 (0.71414), 22554
// (0.34414).
HWY_INLINE Rgb16 Convert(V16 y, V16 cb_raw, V16 cr_raw) {
  const V16 centre = hn::Set(d16, 128);
  const V16 cb = hn::Sub(cb_raw, centre);
  const V16 cr = hn::Sub(cr_raw, centre);
  const V16 cb2 = hn::Add(cb, cb);
  const V16 cr2 = hn::Add(cr, cr);
  const Wide green = Combine(Inputs(cb, cr), -22554, 18734, hn::Set(d32, 1 << 15));
  return {hn::Add(y, hn::Add(cr, Scaled(cr2, 26345))), hn::Add(y, hn::Sub(Descale<16>(green), cr)),
          hn::Add(y, hn::Add(cb2, Scaled(cb2, -14942)))};
}

HWY_INLINE V16 Signed(const uint8_t* from) {
  return hn::BitCast(d16, Widened(from));
}

void YccToRgb(const uint8_t* y, const uint8_t* cb, const uint8_t* cr, int count, uint8_t* rgb) {
  constexpr int kPixels = 2 * kLanes16;
  const hn::Half<D8> half;
  const auto convert = [&](int i, uint8_t* to) HWY_ATTR {
    const Rgb16 a = Convert(Signed(y + i), Signed(cb + i), Signed(cr + i));
    const int j = i + kLanes16;
    const Rgb16 b = Convert(Signed(y + j), Signed(cb + j), Signed(cr + j));
    const V8 red = hn::Combine(d8, hn::DemoteTo(half, b.r), hn::DemoteTo(half, a.r));
    const V8 green = hn::Combine(d8, hn::DemoteTo(half, b.g), hn::DemoteTo(half, a.g));
    const V8 blue = hn::Combine(d8, hn::DemoteTo(half, b.b), hn::DemoteTo(half, a.b));
    hn::StoreInterleaved3(red, green, blue, d8, to);
  };
  int i = 0;
  for (; i + kPixels <= count; i += kPixels) convert(i, rgb + ptrdiff_t{3} * i);
  if (i < count) {
    uint8_t last[3 * kPixels];
    convert(i, last);
    std::memcpy(rgb + ptrdiff_t{3} * i, last, size_t{3} * static_cast<size_t>(count - i));
  }
}

#endif

}  // namespace HWY_NAMESPACE
}  // namespace dlpipe::data::coef
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dlpipe::data::coef {

// The scalar version.
namespace {

void samples(const TileBlocks& blocks, int first, int count, const QuantTable& quant, uint8_t* out,
             ptrdiff_t stride) {
  for (int block = first; block < first + count; ++block, out += 8) {
    int16_t data[64];
    natural_coefficients(blocks, block, data);
    for (int i = 0; i < 64; ++i) data[i] = dequantised(data[i], quant[static_cast<size_t>(i)]);
    for (int x = 0; x < 8; ++x) inverse_transform<kColumnShift>(data + x, 8);
    for (int y = 0; y < 8; ++y) {
      inverse_transform<kRowShift>(data + ptrdiff_t{8} * y, 1);
      for (int x = 0; x < 8; ++x) out[y * stride + x] = sample_of(data[8 * y + x]);
    }
  }
}

void columns(const uint8_t* near, const uint8_t* far, int count, uint16_t* out) {
  for (int i = 0; i < count; ++i)
    out[i] = static_cast<uint16_t>(far == nullptr ? near[i] : weighted(near[i], far[i]));
}

void widen(const uint16_t* columns, int count, bool vertical, uint8_t* out) {
  for (int i = 0; i < count; ++i) {
    out[2 * i] = widened(columns[i], columns[i - 1], false, vertical);
    out[2 * i + 1] = widened(columns[i], columns[i + 1], true, vertical);
  }
}

void between(const uint8_t* near, const uint8_t* far, int bias, int count, uint8_t* out) {
  for (int i = 0; i < count; ++i) out[i] = between_rows(near[i], far[i], bias);
}

void convert(const uint8_t* y, const uint8_t* cb, const uint8_t* cr, int count, uint8_t* rgb) {
  for (int i = 0; i < count; ++i, rgb += 3) {
    const Rgb color = ycc_to_rgb(y[i], cb[i], cr[i]);
    rgb[0] = color.r;
    rgb[1] = color.g;
    rgb[2] = color.b;
  }
}

}  // namespace

const Kernels& scalar_kernels() {
  static const Kernels plain = {samples, columns, widen, between, convert};
  return plain;
}

HWY_EXPORT(Samples);
HWY_EXPORT(Columns);
HWY_EXPORT(Widen);
HWY_EXPORT(Between);
HWY_EXPORT(YccToRgb);

Kernels best_kernels() {
  // Without this update, every entry of Highway's tables is a function that detects the CPU at every call.
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  return {HWY_DYNAMIC_DISPATCH(Samples), HWY_DYNAMIC_DISPATCH(Columns), HWY_DYNAMIC_DISPATCH(Widen),
          HWY_DYNAMIC_DISPATCH(Between), HWY_DYNAMIC_DISPATCH(YccToRgb)};
}

const Kernels& kernels() {
  static const Kernels best = best_kernels();
  return best;
}

}  // namespace dlpipe::data::coef
#endif
