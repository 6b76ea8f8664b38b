#include <algorithm>
#include <bit>

#include "dlpipe/augment/convolve3x3_terms.h"
#include "dlpipe/augment/neighbourhood_kernels.h"

// What ReorderDemote2To gives is in order here only where vectors are made of 16-byte blocks: not so for SVE and RVV; such
// machines run the NEON or the plain code.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "dlpipe/augment/convolve3x3_kernels.cpp"
#include <hwy/foreach_target.h>  // NOLINT: includes this file once a target

#include <hwy/highway.h>

#include "dlpipe/augment/pair_products-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dlpipe::augment {
namespace HWY_NAMESPACE {

/// One result: `taps` are the filter's, where it begins to read.
HWY_INLINE uint8_t FilteredPixel(const uint8_t* const* taps, int i, const Terms3x3& filter, int divisor) {
  int sum = divisor / 2;
  for (int t = 0; t < filter.count; ++t) {
    const Terms3x3::Term& term = filter.terms[static_cast<size_t>(t)];
    for (int k = 0; k < term.added; ++k) sum += term.weight * (*taps++)[i];
    for (int k = 0; k < term.subtracted; ++k) sum -= term.weight * (*taps++)[i];
  }
  return static_cast<uint8_t>(std::clamp(sum, 0, 256 * divisor - 1) / divisor);
}

#if HWY_TARGET == HWY_SCALAR

void FilteredRow(const uint8_t* const* taps, const Terms3x3& filter, int divisor, int size, uint8_t* to) {
  for (int i = 0; i < size; ++i) to[i] = FilteredPixel(taps, i, filter, divisor);
}

#else

namespace hn = hwy::HWY_NAMESPACE;

using D16 = hn::ScalableTag<int16_t>;
using D32 = hn::ScalableTag<int32_t>;
using V32 = hn::Vec<D32>;

/// sum / divisor, a power of two.
struct ShiftedDown {
  int bits;
  HWY_INLINE V32 operator()(V32 sum) const { return hn::ShiftRightSame(sum, bits); }
};
/// sum / divisor where that is positive, else nothing above 0. Half a step between two results keeps the product clear of
/// rounding: results below 256 and divisors below 2^12.
struct Divided {
  float scale;
  HWY_INLINE V32 operator()(V32 sum) const {
    const hn::RebindToFloat<D32> floats;
    const auto real = hn::Add(hn::ConvertTo(floats, sum), hn::Set(floats, 0.5f));
    return hn::ConvertTo(D32(), hn::Mul(real, hn::Set(floats, scale)));
  }
};

template <class Quotient>
void FilteredVectors(const uint8_t* const* all_taps, const Terms3x3& filter, int divisor,
                     const Quotient& quotient, int size, uint8_t* to) {
  const D16 d16;
  const D32 d32;
  const hn::Rebind<uint8_t, D16> d8;
  const auto lanes = static_cast<int>(hn::Lanes(d16));
  for (int next = 0; next < size; next += lanes) {
    const int i = std::min(next, size - lanes);  // the last vector may do some again
    const uint8_t* const* taps = all_taps;
    const auto pixels_of = [&](const Terms3x3::Term& term) HWY_ATTR {
      auto sum = hn::Zero(d16);
      for (int k = 0; k < term.added; ++k) sum = hn::Add(sum, hn::PromoteTo(d16, hn::LoadU(d8, *taps++ + i)));
      for (int k = 0; k < term.subtracted; ++k)
        sum = hn::Sub(sum, hn::PromoteTo(d16, hn::LoadU(d8, *taps++ + i)));
      return sum;
    };
    V32 lower = hn::Set(d32, divisor / 2);
    V32 upper = lower;
    for (size_t t = 0; t < static_cast<size_t>(filter.count); t += 2) {
      const Terms3x3::Term& a = filter.terms[t];
      const Terms3x3::Term& b = filter.terms[t + 1];  // of weight 0 where there is none
      const auto weights = hn::BitCast(d16, hn::Set(d32, a.weight | (b.weight << 16)));
      const auto pixels_a = pixels_of(a);
      const auto pixels_b = pixels_of(b);
      lower = AddPairProducts(hn::InterleaveLower(d16, pixels_a, pixels_b), weights, lower);
      upper = AddPairProducts(hn::InterleaveUpper(d16, pixels_a, pixels_b), weights, upper);
    }
    const auto results = hn::ReorderDemote2To(d16, quotient(lower), quotient(upper));
    hn::StoreU(hn::DemoteTo(d8, results), d8, to + i);
  }
}

void FilteredRow(const uint8_t* const* taps, const Terms3x3& filter, int divisor, int size, uint8_t* to) {
  if (size < static_cast<int>(hn::Lanes(D16()))) {
    for (int i = 0; i < size; ++i) to[i] = FilteredPixel(taps, i, filter, divisor);
    return;
  }
  if (std::has_single_bit(static_cast<unsigned>(divisor)))
    return FilteredVectors(taps, filter, divisor,
                           ShiftedDown{std::countr_zero(static_cast<unsigned>(divisor))}, size, to);
  FilteredVectors(taps, filter, divisor, Divided{1.0f / static_cast<float>(divisor)}, size, to);
}

#endif

void Convolve3x3(const ConstImageView& in, const Terms3x3& filter, int divisor, const ImageView& out) {
  for (int y = 0; y < out.height; ++y) {
    const uint8_t* taps[9];
    for (size_t t = 0; t < filter.taps.size(); ++t)
      taps[t] = in.row(y + filter.taps[t] / 3) + ptrdiff_t{filter.taps[t] % 3} * in.channels;
    FilteredRow(taps, filter, divisor, out.width * out.channels, out.row(y));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace dlpipe::augment
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dlpipe::augment {

HWY_EXPORT(Convolve3x3);

void convolve3x3(const ConstImageView& with_margins, const std::array<int, 9>& weights, int divisor,
                 const ImageView& out) {
  HWY_DYNAMIC_DISPATCH(Convolve3x3)(with_margins, terms_of(weights), divisor, out);
}

}  // namespace dlpipe::augment
#endif  // HWY_ONCE
