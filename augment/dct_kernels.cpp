#include "dlpipe/augment/dct_kernels.h"

#include <algorithm>
#include <utility>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "dlpipe/augment/dct_kernels.cpp"
#include <hwy/foreach_target.h>  // NOLINT: includes this file once a target

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace dlpipe::augment {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

constexpr int kSide = 8;
constexpr int kConstantBits = 13;
constexpr int kExtraBits = 2;  // that values have between the two passes

constexpr int32_t Constant(double value) {
  return static_cast<int32_t>(value * (1 << kConstantBits) + (value < 0 ? -0.5 : 0.5));
}

// A pass works on 32 bits; what lies between passes fits into 16, as libjpeg's own vector code has it.
using Wide = hn::CappedTag<int32_t, kSide>;
using Narrow = hn::Rebind<int16_t, Wide>;
using WideFloats = hn::RebindToFloat<Wide>;
using V = hn::Vec<Wide>;

HWY_INLINE V Times(V value, double constant) {
  return hn::Mul(value, hn::Set(Wide(), Constant(constant)));
}

template <int kBits>
HWY_INLINE void StoreDescaled(V value, int16_t* to) {
  const V rounded = hn::ShiftRight<kBits>(hn::Add(value, hn::Set(Wide(), 1 << (kBits - 1))));
  hn::Store(hn::DemoteTo(Narrow(), rounded), Narrow(), to);
}

// The part that both directions share: four sums of four odd numbers.
HWY_INLINE void Rotate(V& v0, V& v1, V& v2, V& v3) {
  const V z5 = Times(hn::Add(hn::Add(v0, v2), hn::Add(v1, v3)), 1.175875602);
  const V z1 = Times(hn::Add(v0, v3), -0.899976223);
  const V z2 = Times(hn::Add(v1, v2), -2.562915447);
  const V z3 = hn::Add(Times(hn::Add(v0, v2), -1.961570560), z5);
  const V z4 = hn::Add(Times(hn::Add(v1, v3), -0.390180644), z5);
  v0 = hn::Add(Times(v0, 0.298631336), hn::Add(z1, z3));
  v1 = hn::Add(Times(v1, 2.053119869), hn::Add(z2, z4));
  v2 = hn::Add(Times(v2, 3.072711026), hn::Add(z2, z3));
  v3 = hn::Add(Times(v3, 1.501321110), hn::Add(z1, z4));
}

/// Eight transforms of eight numbers side by side: number k of transform i lies at 8 k + i.
template <bool kIsFirst>
HWY_INLINE void Forward(const int16_t* HWY_RESTRICT from, int16_t* HWY_RESTRICT to) {
  constexpr int kBits = kIsFirst ? kConstantBits - kExtraBits : kConstantBits + kExtraBits;
  const Wide wide;
  for (size_t i = 0; i < kSide; i += hn::Lanes(wide)) {
    const auto at = [&](size_t k)
                        HWY_ATTR { return hn::PromoteTo(wide, hn::Load(Narrow(), from + kSide * k + i)); };
    const V sum0 = hn::Add(at(0), at(7)), sum1 = hn::Add(at(1), at(6));
    const V sum2 = hn::Add(at(2), at(5)), sum3 = hn::Add(at(3), at(4));
    const V even0 = hn::Add(sum0, sum3), even3 = hn::Sub(sum0, sum3);
    const V even1 = hn::Add(sum1, sum2), even2 = hn::Sub(sum1, sum2);
    const V whole0 = hn::Add(even0, even1), whole4 = hn::Sub(even0, even1);
    if constexpr (kIsFirst) {
      hn::Store(hn::DemoteTo(Narrow(), hn::ShiftLeft<kExtraBits>(whole0)), Narrow(), to + i);
      hn::Store(hn::DemoteTo(Narrow(), hn::ShiftLeft<kExtraBits>(whole4)), Narrow(), to + 4 * kSide + i);
    } else {
      StoreDescaled<kExtraBits>(whole0, to + i);
      StoreDescaled<kExtraBits>(whole4, to + 4 * kSide + i);
    }
    const V z1 = Times(hn::Add(even2, even3), 0.541196100);
    StoreDescaled<kBits>(hn::Add(z1, Times(even3, 0.765366865)), to + 2 * kSide + i);
    StoreDescaled<kBits>(hn::Add(z1, Times(even2, -1.847759065)), to + 6 * kSide + i);
    V odd0 = hn::Sub(at(3), at(4)), odd1 = hn::Sub(at(2), at(5));
    V odd2 = hn::Sub(at(1), at(6)), odd3 = hn::Sub(at(0), at(7));
    Rotate(odd0, odd1, odd2, odd3);
    StoreDescaled<kBits>(odd0, to + 7 * kSide + i);
    StoreDescaled<kBits>(odd1, to + 5 * kSide + i);
    StoreDescaled<kBits>(odd2, to + 3 * kSide + i);
    StoreDescaled<kBits>(odd3, to + 1 * kSide + i);
  }
}

template <bool kIsFirst>
HWY_INLINE void Backward(const int16_t* HWY_RESTRICT from, int16_t* HWY_RESTRICT to) {
  constexpr int kBits = kIsFirst ? kConstantBits - kExtraBits : kConstantBits + kExtraBits + 3;
  const Wide wide;
  for (size_t i = 0; i < kSide; i += hn::Lanes(wide)) {
    const auto at = [&](size_t k)
                        HWY_ATTR { return hn::PromoteTo(wide, hn::Load(Narrow(), from + kSide * k + i)); };
    const V z1 = Times(hn::Add(at(2), at(6)), 0.541196100);
    const V low = hn::Add(z1, Times(at(6), -1.847759065));
    const V high = hn::Add(z1, Times(at(2), 0.765366865));
    const V sum = hn::ShiftLeft<kConstantBits>(hn::Add(at(0), at(4)));
    const V difference = hn::ShiftLeft<kConstantBits>(hn::Sub(at(0), at(4)));
    V odd0 = at(7), odd1 = at(5), odd2 = at(3), odd3 = at(1);
    Rotate(odd0, odd1, odd2, odd3);
    const auto both = [&](V even, V odd, size_t k) HWY_ATTR {
      StoreDescaled<kBits>(hn::Add(even, odd), to + kSide * k + i);
      StoreDescaled<kBits>(hn::Sub(even, odd), to + kSide * (7 - k) + i);
    };
    both(hn::Add(sum, high), odd3, 0);
    both(hn::Add(difference, low), odd2, 1);
    both(hn::Sub(difference, low), odd1, 2);
    both(hn::Sub(sum, high), odd0, 3);
  }
}

#if HWY_TARGET == HWY_SCALAR
void Transpose(int16_t* values) {
  for (int y = 0; y < kSide; ++y) {
    for (int x = 0; x < y; ++x) std::swap(values[y * kSide + x], values[x * kSide + y]);
  }
}
#else
HWY_INLINE void Transpose(int16_t* HWY_RESTRICT values) {
  const hn::FixedTag<int16_t, kSide> d;
  const auto row = [&](size_t k) HWY_ATTR { return hn::Load(d, values + kSide * k); };
  const auto low = [&](auto x, auto y) HWY_ATTR { return hn::InterleaveLower(d, x, y); };
  const auto high = [&](auto x, auto y) HWY_ATTR { return hn::InterleaveUpper(d, x, y); };
  // Interleaving row k with row k + 4, three times, turns rows into columns.
  const auto a0 = low(row(0), row(4)), a1 = high(row(0), row(4)), a2 = low(row(1), row(5));
  const auto a3 = high(row(1), row(5)), a4 = low(row(2), row(6)), a5 = high(row(2), row(6));
  const auto a6 = low(row(3), row(7)), a7 = high(row(3), row(7));
  const auto b0 = low(a0, a4), b1 = high(a0, a4), b2 = low(a1, a5), b3 = high(a1, a5);
  const auto b4 = low(a2, a6), b5 = high(a2, a6), b6 = low(a3, a7), b7 = high(a3, a7);
  const auto write = [&](size_t k, auto x, auto y) HWY_ATTR {
    hn::Store(low(x, y), d, values + kSide * k);
    hn::Store(high(x, y), d, values + kSide * (k + 1));
  };
  write(0, b0, b4);
  write(2, b1, b5);
  write(4, b2, b6);
  write(6, b3, b7);
}
#endif

/// Divisors, what rounds to the nearest (halves away from zero) and reciprocals; the transform's 8 is among them.
struct Quantizer {
  alignas(64) int32_t divisor[kSide * kSide];
  alignas(64) float half[kSide * kSide];
  alignas(64) float inverse[kSide * kSide];

  explicit Quantizer(const float* divisors) {
    for (int i = 0; i < kSide * kSide; ++i) {
      divisor[i] = static_cast<int32_t>(divisors[i]);
      // With the 0.5 no quotient is nearer to a whole number than 1 / (16 divisor), and floats are off by less.
      half[i] = 4 * divisors[i] + 0.5f;
      inverse[i] = 1 / (8 * divisors[i]);
    }
  }
};

void Quantize(const Quantizer& by, int16_t* values) {
  const Wide wide;
  const WideFloats floats;
  for (size_t i = 0; i < kSide * kSide; i += hn::Lanes(wide)) {
    const V value = hn::PromoteTo(wide, hn::Load(Narrow(), values + i));
    const auto size = hn::Add(hn::ConvertTo(floats, hn::Abs(value)), hn::Load(floats, by.half + i));
    const V steps = hn::ConvertTo(wide, hn::Mul(size, hn::Load(floats, by.inverse + i)));
    const V kept = hn::Mul(steps, hn::Load(wide, by.divisor + i));
    const V signed_kept = hn::IfThenElse(hn::Lt(value, hn::Zero(wide)), hn::Neg(kept), kept);
    hn::Store(hn::DemoteTo(Narrow(), signed_kept), Narrow(), values + i);
  }
}

#if HWY_TARGET == HWY_SCALAR
void LoadBlock(const uint8_t* block, ptrdiff_t stride, int16_t* to) {
  for (int i = 0; i < kSide * kSide; ++i)
    to[i] = static_cast<int16_t>(block[i / kSide * stride + i % kSide] - 128);
}
void StoreBlock(const int16_t* from, uint8_t* block, ptrdiff_t stride) {
  for (int i = 0; i < kSide * kSide; ++i)
    block[i / kSide * stride + i % kSide] = static_cast<uint8_t>(std::min(std::max(from[i] + 128, 0), 255));
}
#else
HWY_INLINE void LoadBlock(const uint8_t* block, ptrdiff_t stride, int16_t* HWY_RESTRICT to) {
  const hn::FixedTag<int16_t, kSide> d;
  const hn::Rebind<uint8_t, decltype(d)> bytes;
  for (int i = 0; i < kSide; ++i) {
    const auto values = hn::PromoteTo(d, hn::LoadU(bytes, block + i * stride));
    hn::Store(hn::Sub(values, hn::Set(d, 128)), d, to + i * kSide);
  }
}
HWY_INLINE void StoreBlock(const int16_t* HWY_RESTRICT from, uint8_t* block, ptrdiff_t stride) {
  const hn::FixedTag<int16_t, kSide> d;
  const hn::Rebind<uint8_t, decltype(d)> bytes;
  for (int i = 0; i < kSide; ++i) {
    const auto values = hn::SaturatedAdd(hn::Load(d, from + i * kSide), hn::Set(d, 128));
    hn::StoreU(hn::DemoteTo(bytes, values), bytes, block + i * stride);
  }
}
#endif

void QuantizeBlocks(const BlockPlane& plane, const float* divisors) {
  const Quantizer quantizer(divisors);
  alignas(64) int16_t a[kSide * kSide];
  alignas(64) int16_t b[kSide * kSide];
  for (int y = 0; y < plane.height; y += kSide) {
    for (int x = 0; x < plane.stride; x += kSide) {
      uint8_t* const block = plane.row(y) + x;
      LoadBlock(block, plane.stride, a);
      Transpose(a);
      Forward<true>(a, b);
      Transpose(b);
      Forward<false>(b, a);
      Quantize(quantizer, a);
      Backward<true>(a, b);
      Transpose(b);
      Backward<false>(b, a);
      Transpose(a);
      StoreBlock(a, block, plane.stride);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace dlpipe::augment
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dlpipe::augment {

HWY_EXPORT(QuantizeBlocks);

void quantize_blocks(const BlockPlane& plane, const float* divisors) {
  HWY_DYNAMIC_DISPATCH(QuantizeBlocks)(plane, divisors);
}

}  // namespace dlpipe::augment
#endif  // HWY_ONCE
