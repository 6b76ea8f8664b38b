#include "dlpipe/augment/hue_kernels.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "dlpipe/augment/hue_kernels.cpp"
#include <hwy/foreach_target.h>  // NOLINT: includes this file once a target

#include <hwy/highway.h>

#include "dlpipe/augment/planes-inl.h"

#ifndef DLPIPE_AUGMENT_HUE_TABLES
#define DLPIPE_AUGMENT_HUE_TABLES
namespace dlpipe::augment {

// Pillow's hue of a colour, in its mixture of floats and doubles.
constexpr int pillows_hue(int r, int g, int b) {
  const int most = std::max(r, std::max(g, b));
  const auto span = static_cast<float>(most - std::min(r, std::min(g, b)));
  const float from_r = static_cast<float>(most - r) / span;
  const float from_g = static_cast<float>(most - g) / span;
  const float from_b = static_cast<float>(most - b) / span;
  float sixths = 0;
  if (r == most) {
    sixths = from_b - from_g;
  } else if (g == most) {
    sixths = static_cast<float>(2.0 + static_cast<double>(from_r) - static_cast<double>(from_b));
  } else {
    sixths = static_cast<float>(4.0 + static_cast<double>(from_g) - static_cast<double>(from_r));
  }
  const double turned = static_cast<double>(sixths) / 6.0 + 1.0;
  const auto share = static_cast<float>(turned >= 1.0 ? turned - 1.0 : turned);
  return static_cast<int>(static_cast<double>(share) * 255.0);
}

// A hue that is a whole number may fall short of it in floats. Whether it does depends on that number alone; among the
// colours whose most and least lie 85 apart there is one of each.
struct WholeHues {
  int32_t error[256];  // what Pillow gives less the number
};
constexpr WholeHues make_whole_hues() {
  const auto distance = [](int a, int b) { return a < b ? b - a : a - b; };
  WholeHues hues{};
  for (int number = 0; number < 255; ++number) {
    const int place = 2 * number;  // of the 510 of the circle
    const int r = std::clamp(distance(place, 255) - 85, 0, 85);
    const int g = std::clamp(170 - distance(place, 170), 0, 85);
    const int b = std::clamp(170 - distance(place, 340), 0, 85);
    hues.error[number] = pillows_hue(r, g, b) - number;
  }
  return hues;
}
inline constexpr WholeHues kWholeHues = make_whole_hues();

}  // namespace dlpipe::augment
#endif

HWY_BEFORE_NAMESPACE();
namespace dlpipe::augment {
namespace HWY_NAMESPACE {

// Pillow's 8-bit HSV and back. Pillow computes in floats and doubles, but what it cuts off or rounds is a fraction whose
// distance from the next whole number or half is larger than its errors: whole numbers (as floats, below 2^24) and one
// division give the same, but for hues that are whole numbers.
using Ints = hn::CappedTag<int32_t, kBlock>;
using Floats = hn::RebindToFloat<Ints>;
using Int = hn::Vec<Ints>;
using Float = hn::Vec<Floats>;

// Vectors are handed on one by one: those of SVE can't be members.
HWY_INLINE void ToHsv(Int r, Int g, Int b, Int& hue, Int& saturation, Int& value) {
  const Ints d;
  const Floats f;
  const auto most = hn::Max(hn::Max(r, g), b);
  const auto span = hn::Sub(most, hn::Min(hn::Min(r, g), b));
  const auto two = hn::Add(span, span);
  const auto from_first = hn::IfThenElse(hn::Eq(r, most), hn::Sub(g, b),
                                         hn::IfThenElse(hn::Eq(g, most), hn::Add(two, hn::Sub(b, r)),
                                                        hn::Add(hn::Add(two, two), hn::Sub(r, g))));
  const auto whole = hn::Add(hn::Add(two, two), two);
  const auto sixths =
      hn::Add(from_first, hn::IfThenElseZero(hn::Lt(from_first, hn::Zero(d)), whole));  // of span
  const auto divisor = hn::ConvertTo(f, hn::Max(span, hn::Set(d, 1)));
  const auto turn = hn::Div(hn::Mul(hn::ConvertTo(f, sixths), hn::Set(f, 42.5f)), divisor);
  const auto cut = hn::ConvertTo(d, turn);
  const auto is_whole = hn::BitCast(d, hn::VecFromMask(f, hn::Eq(hn::ConvertTo(f, cut), turn)));
  const auto error = hn::And(is_whole, hn::GatherIndex(d, kWholeHues.error, cut));
  const auto share = hn::Div(hn::Mul(hn::ConvertTo(f, span), hn::Set(f, 255.0f)),
                             hn::ConvertTo(f, hn::Max(most, hn::Set(d, 1))));
  hue = hn::Add(cut, error);
  saturation = hn::ConvertTo(d, share);
  value = most;
}

/// value (1 - saturation / 255 * share / 255), rounded.
HWY_INLINE Int Dimmed(Float value, Float saturation, Int share) {
  const Floats f;
  const auto left = hn::Sub(hn::Set(f, 65025.0f), hn::Mul(saturation, hn::ConvertTo(f, share)));
  const auto scaled = hn::Mul(hn::Mul(value, left), hn::Set(f, 1.0f / 65025.0f));
  return hn::ConvertTo(Ints(), hn::Add(scaled, hn::Set(f, 0.5f)));
}

HWY_INLINE void FromHsv(Int hue, Int whole_saturation, Int v, Int& r, Int& g, Int& b) {
  const Ints d;
  const Floats f;
  const auto constant = [&](int32_t value) HWY_ATTR { return hn::Set(d, value); };
  const auto sixths = hn::Mul(hue, constant(6));                            // of 255
  const auto sixth = hn::ShiftRight<23>(hn::Mul(sixths, constant(32897)));  // sixths / 255
  const auto within = hn::Sub(sixths, hn::Mul(sixth, constant(255)));
  const auto saturation = hn::ConvertTo(f, whole_saturation);
  const auto value = hn::ConvertTo(f, v);
  const auto p = Dimmed(value, saturation, constant(255));
  const auto q = Dimmed(value, saturation, within);
  const auto t = Dimmed(value, saturation, hn::Sub(constant(255), within));
  const auto is = [&](int32_t k) HWY_ATTR { return hn::Eq(sixth, constant(k)); };
  const auto is_first = hn::Or(is(0), is(6));
  const auto is_1 = is(1), is_2 = is(2), is_3 = is(3), is_4 = is(4), is_5 = is(5);
  const auto choose = [&](auto whole, auto falling, auto rising) HWY_ATTR {
    return hn::IfThenElse(whole, v, hn::IfThenElse(falling, q, hn::IfThenElse(rising, t, p)));
  };
  r = choose(hn::Or(is_first, is_5), is_1, is_4);
  g = choose(hn::Or(is_1, is_2), is_3, is_first);
  b = choose(hn::Or(is_3, is_4), is_5, is_2);
}

void TurnHue(int shift, const ConstImageView& in, const ImageView& out) {
  const Ints d;
  const hn::Rebind<uint8_t, Ints> bytes;
  ForBlocks(in, out, [&](Planes& planes) HWY_ATTR {
    for (size_t i = 0; i < kBlock; i += hn::Lanes(d)) {
      const auto channel = [&](int c)
                               HWY_ATTR { return hn::PromoteTo(d, hn::Load(bytes, planes.of[c] + i)); };
      Int hue, saturation, value;
      ToHsv(channel(0), channel(1), channel(2), hue, saturation, value);
      hue = hn::And(hn::Add(hue, hn::Set(d, shift)), hn::Set(d, 255));
      Int r, g, b;
      FromHsv(hue, saturation, value, r, g, b);
      hn::Store(hn::DemoteTo(bytes, r), bytes, planes.of[0] + i);
      hn::Store(hn::DemoteTo(bytes, g), bytes, planes.of[1] + i);
      hn::Store(hn::DemoteTo(bytes, b), bytes, planes.of[2] + i);
    }
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace dlpipe::augment
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dlpipe::augment {

HWY_EXPORT(TurnHue);

void turn_hue(int shift, const ConstImageView& in, const ImageView& out) {
  HWY_DYNAMIC_DISPATCH(TurnHue)(shift, in, out);
}

}  // namespace dlpipe::augment
#endif  // HWY_ONCE
