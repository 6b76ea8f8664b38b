// What the block and the row kernels share: vectors of 8, 16 and 32 bits, and products of pairs with 32-bit
// sums. Included once for each instruction set (Highway's foreach_target), so with a guard of its own kind.
#include <cstdint>

#include <hwy/highway.h>

#if defined(DLPIPE_COEF_VECTORS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef DLPIPE_COEF_VECTORS_INL
#undef DLPIPE_COEF_VECTORS_INL
#else
#define DLPIPE_COEF_VECTORS_INL
#endif

HWY_BEFORE_NAMESPACE();
namespace dlpipe::data::coef {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET != HWY_SCALAR

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

#endif

}  // namespace HWY_NAMESPACE
}  // namespace dlpipe::data::coef
HWY_AFTER_NAMESPACE();
#endif
