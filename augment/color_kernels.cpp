// The inner loops of ops on values and colours: tables, mixes with grey, hues (Pillow's HSV), Lab (OpenCV's). Pixels are split
// into channels in blocks.

// The target with instructions for looking up bytes in tables of 256: Highway 1.0 disables it unless requested.
#define HWY_WANT_AVX3_DL 1

#include "augment/color_kernels.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/portable_math.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "augment/color_kernels.cpp"
#include <hwy/foreach_target.h>  // NOLINT: includes this file once a target

#include <hwy/highway.h>

#ifndef DLPIPE_AUGMENT_COLOR_KERNELS_TABLES
#define DLPIPE_AUGMENT_COLOR_KERNELS_TABLES
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

// A hue that should be a whole number may be slightly less in floats. Whether it is depends only on the
// number, so one colour per hue is enough: here those with maximum and minimum 85 apart.
struct WholeHues {
  int32_t error[256];  // Pillow's value minus the number
};
constexpr WholeHues make_whole_hues() {
  const auto distance = [](int a, int b) { return a < b ? b - a : a - b; };
  WholeHues hues{};
  for (int number = 0; number < 255; ++number) {
    const int place = 2 * number;  // on a circle of 510
    const int r = std::clamp(distance(place, 255) - 85, 0, 85);
    const int g = std::clamp(170 - distance(place, 170), 0, 85);
    const int b = std::clamp(170 - distance(place, 340), 0, 85);
    hues.error[number] = pillows_hue(r, g, b) - number;
  }
  return hues;
}
inline constexpr WholeHues kWholeHues = make_whole_hues();

// CIE's functions, sampled: linear light with 3 more bits than the values have, f(t) with 15 bits after the point, and on
// the way back values with 14 bits and linear light with 12.
struct LabTables {
  std::array<int32_t, 256> linear;    // of an sRGB value, 255 * 8 being white
  std::array<int32_t, 3072> f;        // of linear light, up to 1.5
  std::array<int32_t, 256> y;         // of L
  std::array<int32_t, 256> f_y;       // of L
  std::array<int32_t, 4096> encoded;  // of linear light, an sRGB value
};

// 4096 times RGB to XYZ, each divided by the white's; and XYZ back to RGB.
constexpr int32_t kToXyz[3][3] = {{1777, 1541, 778}, {871, 2929, 296}, {73, 448, 3575}};
constexpr int32_t kToRgb[3][3] = {{12615, -6296, -2223}, {-3773, 7684, 185}, {217, -836, 4715}};

inline double power(double x, double exponent) {
  return portable_exp(exponent * portable_log(x));
}

inline LabTables make_lab_tables() {
  const auto rounded = [](double value) { return static_cast<int32_t>(std::floor(value + 0.5)); };
  LabTables tables{};
  for (size_t i = 0; i < 256; ++i) {
    const double x = static_cast<double>(i) / 255;
    tables.linear[i] = rounded(2040 * (x <= 0.04045 ? x / 12.92 : power((x + 0.055) / 1.055, 2.4)));
  }
  for (size_t i = 0; i < tables.f.size(); ++i) {
    const double x = static_cast<double>(i) / 2040;
    tables.f[i] = rounded(32768 * (x < 216.0 / 24389 ? x * 841 / 108 + 16.0 / 116 : power(x, 1.0 / 3)));
  }
  // Two are within 2e-4 of a half, where OpenCV's 32-bit floats round to the other side.
  tables.f[49] = 9454;
  tables.f[628] = 22126;
  for (size_t i = 0; i < 256; ++i) {
    const double l = static_cast<double>(i) * 100 / 255;
    const double f = i <= 20 ? 16.0 / 116 + l * 27 / 24389 * 841 / 108 : (l + 16) / 116;
    tables.f_y[i] = rounded(16384 * f);
    tables.y[i] = rounded(16384 * (i <= 20 ? l * 27 / 24389 : f * f * f));
  }
  for (size_t i = 0; i < tables.encoded.size(); ++i) {
    const double x = static_cast<double>(i) / 4096;
    tables.encoded[i] = rounded(255 * (x <= 0.0031308 ? x * 12.92 : 1.055 * power(x, 1 / 2.4) - 0.055));
  }
  return tables;
}

inline const LabTables& lab_tables() {
  static const LabTables tables = make_lab_tables();
  return tables;
}

}  // namespace dlpipe::augment
#endif

HWY_BEFORE_NAMESPACE();
namespace dlpipe::augment {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Pixels split into channels, so that loops are over consecutive values; no vector is longer.
constexpr int kBlock = 128;
struct Planes {
  alignas(64) uint8_t of[4][kBlock];
};

#if HWY_TARGET != HWY_SCALAR
HWY_INLINE void TakeApart3(const uint8_t* from, Planes& planes) {
  const hn::CappedTag<uint8_t, kBlock> d;
  for (size_t i = 0; i < kBlock; i += hn::Lanes(d)) {
    hn::Vec<decltype(d)> r, g, b;
    hn::LoadInterleaved3(d, from + 3 * i, r, g, b);
    hn::Store(r, d, planes.of[0] + i);
    hn::Store(g, d, planes.of[1] + i);
    hn::Store(b, d, planes.of[2] + i);
  }
}

HWY_INLINE void PutTogether3(const Planes& planes, uint8_t* to) {
  const hn::CappedTag<uint8_t, kBlock> d;
  for (size_t i = 0; i < kBlock; i += hn::Lanes(d)) {
    hn::StoreInterleaved3(hn::Load(d, planes.of[0] + i), hn::Load(d, planes.of[1] + i),
                          hn::Load(d, planes.of[2] + i), d, to + 3 * i);
  }
}
#endif

inline void TakeApart(const uint8_t* from, int channels, int count, Planes& planes) {
#if HWY_TARGET != HWY_SCALAR
  if (channels == 3 && count == kBlock) return TakeApart3(from, planes);
  if (channels == 3) {
    uint8_t whole[3 * kBlock] = {};
    std::memcpy(whole, from, size_t{3} * static_cast<size_t>(count));
    return TakeApart3(whole, planes);
  }
#endif
  for (int i = 0; i < count; ++i) {
    for (int c = 0; c < channels; ++c) planes.of[c][i] = *from++;
  }
}

inline void PutTogether(const Planes& planes, int channels, int count, uint8_t* to) {
#if HWY_TARGET != HWY_SCALAR
  if (channels == 3 && count == kBlock) return PutTogether3(planes, to);
  if (channels == 3) {
    uint8_t whole[3 * kBlock];
    PutTogether3(planes, whole);
    std::memcpy(to, whole, size_t{3} * static_cast<size_t>(count));
    return;
  }
#endif
  for (int i = 0; i < count; ++i) {
    for (int c = 0; c < channels; ++c) *to++ = planes.of[c][i];
  }
}

/// Rows without gaps are treated as one long row.
struct Rows {
  int count = 0;
  int width = 0;
};
HWY_INLINE Rows LongRows(const ConstImageView& in, const ImageView& out) {
  const ptrdiff_t row = ptrdiff_t{out.width} * out.channels;
  if (in.stride == row && out.stride == row) return {1, out.width * out.height};
  return {out.height, out.width};
}

/// Calls body(planes) for every block of the image's pixels; the result is written to `out`.
template <class Body>
HWY_INLINE void ForBlocks(const ConstImageView& in, const ImageView& out, const Body& body) {
  Planes planes;
  std::memset(&planes, 0, sizeof planes);
  const Rows rows = LongRows(in, out);
  for (int y = 0; y < rows.count; ++y) {
    for (int x = 0; x < rows.width; x += kBlock) {
      const int count = std::min(kBlock, rows.width - x);
      TakeApart(in.row(y) + ptrdiff_t{x} * in.channels, in.channels, count, planes);
      body(planes);
      PutTogether(planes, out.channels, count, out.row(y) + ptrdiff_t{x} * out.channels);
    }
  }
}

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
/// Looks values up in one table, 64 at a time. An instruction looks up seven of the eight bits, in one half of the
/// table. Returns how many were looked up.
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
/// Looks values up in one table, as many as fill vectors. A vector holds 16 of the table's 256 entries, so
/// each value is looked up in 16 vectors, and all but one yield 0. Returns how many were looked up.
HWY_INLINE size_t LookUpVectors(const LookupTable& table, const uint8_t* from, size_t count, uint8_t* to) {
  const hn::ScalableTag<uint8_t> d;
  const size_t lanes = hn::Lanes(d);
  // An index of 0..15 is unchanged; all others get the highest bit.
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
      for (int i = 0; i < kBlock; ++i) block += gray[i];  // with zeros if there is no pixel
      sum += static_cast<uint64_t>(block);
    }
  }
  return sum;
}

// Pillow's 8-bit HSV and back. Pillow computes in floats and doubles, but the fractions that it truncates or rounds are farther
// from the next whole number or half than its errors. So whole numbers (as floats, below 2^24) and one division give the same
// results, except for hues that are whole numbers.
using Ints = hn::CappedTag<int32_t, kBlock>;
using Floats = hn::RebindToFloat<Ints>;
using Int = hn::Vec<Ints>;
using Float = hn::Vec<Floats>;

// Vectors are passed one by one, because SVE's can't be members of a class.
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

constexpr int kLabBlock = 128;

HWY_INLINE uint8_t Clipped(int32_t value) {
  return static_cast<uint8_t>(std::min(std::max(value, 0), 255));
}

void ToLab(const ConstImageView& in, const LabPlanes& out) {
  const LabTables& tables = lab_tables();
  alignas(64) int32_t light[3][kLabBlock];
  alignas(64) int32_t f[3][kLabBlock];
  for (int y = 0; y < in.height; ++y) {
    for (int x = 0; x < in.width; x += kLabBlock) {
      const int count = std::min(kLabBlock, in.width - x);
      const uint8_t* const from = in.row(y) + ptrdiff_t{x} * in.channels;
      for (int c = 0; c < 3; ++c) {
        for (int i = 0; i < count; ++i) light[c][i] = tables.linear[from[i * in.channels + c]];
      }
      for (int k = 0; k < 3; ++k) {
        const int32_t r = kToXyz[k][0], g = kToXyz[k][1], b = kToXyz[k][2];
        for (int i = 0; i < count; ++i)
          f[k][i] =
              tables
                  .f[static_cast<size_t>((light[0][i] * r + light[1][i] * g + light[2][i] * b + 2048) >> 12)];
      }
      uint8_t* HWY_RESTRICT to[3];
      for (int c = 0; c < 3; ++c) to[c] = out.of[c] + ptrdiff_t{y} * out.stride + x;
      // L = 116 f(Y) - 16, a = 500 (f(X) - f(Y)), b = 200 (f(Y) - f(Z)).
      constexpr int32_t kHalf = 1 << 14;
      constexpr int32_t kMiddle = (128 << 15) + kHalf;
      for (int i = 0; i < count; ++i) {
        to[0][i] = Clipped((296 * f[1][i] - 1336934 + kHalf) >> 15);
        to[1][i] = Clipped((500 * (f[0][i] - f[1][i]) + kMiddle) >> 15);
        to[2][i] = Clipped((200 * (f[1][i] - f[2][i]) + kMiddle) >> 15);
      }
    }
  }
}

/// The inverse of f, 14 bits after the point.
HWY_INLINE int32_t LightOf(int32_t f) {
  const int32_t low = f * 108 / 841 - 290;
  const int32_t high = ((f * f >> 14) * f) >> 14;
  return f <= 3390 ? low : high;
}

void RowFromLab(const uint8_t* const lab[3], int width, int channels, uint8_t* HWY_RESTRICT to) {
  const LabTables& tables = lab_tables();
  alignas(64) int32_t light[3][kLabBlock];
  for (int x = 0; x < width; x += kLabBlock) {
    const int count = std::min(kLabBlock, width - x);
    const uint8_t* HWY_RESTRICT l = lab[0] + x;
    const uint8_t* HWY_RESTRICT a = lab[1] + x;
    const uint8_t* HWY_RESTRICT b = lab[2] + x;
    for (int i = 0; i < count; ++i) {
      const int32_t f_y = tables.f_y[l[i]];
      // a / 500 and b / 200 with 14 bits, by OpenCV's multiplications.
      light[0][i] = LightOf(f_y + ((5 * 53687 * a[i] + 128) >> 13) - 4194);
      light[1][i] = tables.y[l[i]];
      light[2][i] = LightOf(f_y - ((41943 * b[i] + 16) >> 9) + 10484);
    }
    for (int c = 0; c < 3; ++c) {
      const int32_t r = kToRgb[c][0], g = kToRgb[c][1], z = kToRgb[c][2];
      uint8_t* const channel = to + ptrdiff_t{x} * channels + c;
      for (int i = 0; i < count; ++i) {
        const int32_t sum = (light[0][i] * r + light[1][i] * g + light[2][i] * z + (1 << 13)) >> 14;
        channel[i * channels] =
            static_cast<uint8_t>(tables.encoded[static_cast<size_t>(std::min(std::max(sum, 0), 4095))]);
      }
    }
  }
}

void BetweenTiles(const uint8_t* HWY_RESTRICT from, int width, const TileColumns& columns, const float* above,
                  const float* below, float share, uint8_t* HWY_RESTRICT to) {
  const float rest = 1.0f - share;
  const int* HWY_RESTRICT left = columns.left;
  const int* HWY_RESTRICT right = columns.right;
  const float* HWY_RESTRICT right_share = columns.share;
  for (int x = 0; x < width; ++x) {
    const int32_t value = from[x];
    const float b = right_share[x];
    const float a = 1.0f - b;
    const float upper = above[left[x] + value] * a + above[right[x] + value] * b;
    const float lower = below[left[x] + value] * a + below[right[x] + value] * b;
    const float between = upper * rest + lower * share;
    // From 2^23 on, a float has no fraction bits.
    to[x] = static_cast<uint8_t>(std::bit_cast<uint32_t>(between + 8388608.0f) & 0xFF);
  }
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

HWY_EXPORT(TurnHue);

void turn_hue(int shift, const ConstImageView& in, const ImageView& out) {
  HWY_DYNAMIC_DISPATCH(TurnHue)(shift, in, out);
}

HWY_EXPORT(ToLab);
HWY_EXPORT(RowFromLab);
HWY_EXPORT(BetweenTiles);

void to_lab(const ConstImageView& in, const LabPlanes& out) {
  HWY_DYNAMIC_DISPATCH(ToLab)(in, out);
}
void row_from_lab(const uint8_t* const lab[3], int width, int channels, uint8_t* to) {
  HWY_DYNAMIC_DISPATCH(RowFromLab)(lab, width, channels, to);
}
void between_tiles(const uint8_t* from, int width, const TileColumns& columns, const float* above,
                   const float* below, float share, uint8_t* to) {
  HWY_DYNAMIC_DISPATCH(BetweenTiles)(from, width, columns, above, below, share, to);
}

}  // namespace dlpipe::augment
#endif  // HWY_ONCE
