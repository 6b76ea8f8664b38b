#include "dlpipe/io/data/codec/coef/kernels.h"

#include <algorithm>
#include <cstring>

// Vectors here are made of 16-byte blocks whose number is known when compiling: not so for SVE and RVV.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "dlpipe/io/data/codec/coef/row_kernels.cpp"
#include <hwy/foreach_target.h>  // NOLINT: includes this file once a target

#include <hwy/highway.h>

#include "dlpipe/io/data/codec/coef/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dlpipe::data::coef {
namespace HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR

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

HWY_EXPORT(Columns);
HWY_EXPORT(Widen);
HWY_EXPORT(Between);
HWY_EXPORT(YccToRgb);

Kernels best_kernels() {
  // Before that, every entry of Highway's tables is a function that asks the CPU first, at every call.
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  return {best_samples(), HWY_DYNAMIC_DISPATCH(Columns), HWY_DYNAMIC_DISPATCH(Widen),
          HWY_DYNAMIC_DISPATCH(Between), HWY_DYNAMIC_DISPATCH(YccToRgb)};
}

const Kernels& kernels() {
  static const Kernels best = best_kernels();
  return best;
}

}  // namespace dlpipe::data::coef
#endif
