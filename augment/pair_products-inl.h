// Sums of products of pairs of 16-bit lanes, two taps of a filter in one instruction. Included once for each instruction set
// (Highway's foreach_target), so with a special include guard.
#include <cstdint>

#include <hwy/highway.h>

#if defined(DLPIPE_AUGMENT_PAIR_PRODUCTS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef DLPIPE_AUGMENT_PAIR_PRODUCTS_INL
#undef DLPIPE_AUGMENT_PAIR_PRODUCTS_INL
#else
#define DLPIPE_AUGMENT_PAIR_PRODUCTS_INL
#endif

HWY_BEFORE_NAMESPACE();
namespace dlpipe::augment {
namespace HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR

/// sum + a[2i] * b[2i] + a[2i+1] * b[2i+1] in lane i, of signed 16-bit lanes; modulo 2^32.
HWY_INLINE hwy::HWY_NAMESPACE::Vec<hwy::HWY_NAMESPACE::ScalableTag<int32_t>> AddPairProducts(
    hwy::HWY_NAMESPACE::Vec<hwy::HWY_NAMESPACE::ScalableTag<int16_t>> a,
    hwy::HWY_NAMESPACE::Vec<hwy::HWY_NAMESPACE::ScalableTag<int16_t>> b,
    hwy::HWY_NAMESPACE::Vec<hwy::HWY_NAMESPACE::ScalableTag<int32_t>> sum) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::ScalableTag<int32_t> d32;
#if HWY_ARCH_X86 && HWY_TARGET != HWY_EMU128
  auto unused = hn::Zero(d32);
  return hn::ReorderWidenMulAccumulate(d32, a, b, sum, unused);
#else
  const auto a32 = hn::BitCast(d32, a);
  const auto b32 = hn::BitCast(d32, b);
  const auto even =
      hn::Mul(hn::ShiftRight<16>(hn::ShiftLeft<16>(a32)), hn::ShiftRight<16>(hn::ShiftLeft<16>(b32)));
  return hn::Add(hn::Add(sum, even), hn::Mul(hn::ShiftRight<16>(a32), hn::ShiftRight<16>(b32)));
#endif
}

#endif

}  // namespace HWY_NAMESPACE
}  // namespace dlpipe::augment
HWY_AFTER_NAMESPACE();
#endif
