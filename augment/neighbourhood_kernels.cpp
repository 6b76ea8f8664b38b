// The inner loops of ops that read the pixels around each pixel: means and medians, filters of 3 x 3, separable blurs.

// Vectors are in arrays here, and ReorderDemote2To must return 16-byte blocks in order. Neither works with
// SVE and RVV; such machines run the NEON or the plain code.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)

#include "augment/neighbourhood_kernels.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>

#include "augment/copy.h"
#include "augment/layout.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "augment/neighbourhood_kernels.cpp"
#include <hwy/foreach_target.h>  // NOLINT: includes this file once a target

#include <hwy/highway.h>

#include "augment/pair_products-inl.h"

#ifndef DLPIPE_AUGMENT_NEIGHBOURHOOD_KERNELS_TABLES
#define DLPIPE_AUGMENT_NEIGHBOURHOOD_KERNELS_TABLES
namespace dlpipe::augment {

/// The nine weights of a small filter, arranged for few products: weights that differ only in sign form one
/// term, and their pixels are first added and subtracted.
struct Terms3x3 {
  struct Term {
    int weight = 0;
    int added = 0;       // number of added taps,
    int subtracted = 0;  // and of subtracted taps, which follow them
  };
  std::array<Term, 10> terms = {};
  int count = 0;  // of terms, without those of weight 0
  /// The places of all terms, one term after the other: 3 y + x.
  std::array<int, 9> taps = {};
};

inline Terms3x3 terms_of(const std::array<int, 9>& weights) {
  Terms3x3 all;
  size_t taps = 0;
  const auto take = [&](int weight) {
    int taken = 0;
    for (size_t i = 0; i < weights.size(); ++i) {
      if (weights[i] != weight) continue;
      all.taps[taps++] = static_cast<int>(i);
      ++taken;
    }
    return taken;
  };
  for (size_t i = 0; i < weights.size(); ++i) {
    const int weight = std::abs(weights[i]);
    bool is_new = weight != 0;
    for (size_t j = 0; j < i; ++j) is_new = is_new && std::abs(weights[j]) != weight;
    if (!is_new) continue;
    Terms3x3::Term& term = all.terms[static_cast<size_t>(all.count++)];
    term.weight = weight;
    term.added = take(weight);
    term.subtracted = take(-weight);
  }
  return all;
}

/// The blurs' input, a part of an image: rows that are read in place, and where they are mirrored.
struct BlurRows {
  static constexpr size_t kPiece = 64;  // values that the loops process at once

  const uint8_t* const* rows = nullptr;  // [out.height + weights - 1], from column `first` on
  int wide = 0;                          // columns of the window and its margins; of these
  int first = 0;                         // the image has [first, last)
  int last = 0;
  int left = 0;   // the first column's place in the image
  int width = 0;  // the image's
  int channels = 0;

  /// The columns of a row, without the mirrored ones.
  size_t values() const { return static_cast<size_t>(last - first) * static_cast<size_t>(channels); }

  /// Fills the places of a row of `wide` columns that are beyond the image's border.
  void fill_margins(uint16_t* row) const {
    const auto fill = [&](int x) {
      const ptrdiff_t from = ptrdiff_t{reflected(left + x, width) - left} * channels;
      for (int c = 0; c < channels; ++c) row[ptrdiff_t{x} * channels + c] = row[from + c];
    };
    for (int x = 0; x < first; ++x) fill(x);
    for (int x = last; x < wide; ++x) fill(x);
  }
};

struct BlurMemory {
  const uint8_t** rows;  // [high]
  uint16_t* row;         // vertical sums or their results, with margins
  uint16_t* down;        // vertical sums, without margins

  BlurMemory(const BlurRows& in, size_t high, Layout& layout) {
    const size_t values = static_cast<size_t>(in.wide) * static_cast<size_t>(in.channels) + BlurRows::kPiece;
    rows = layout.take<const uint8_t*>(high);
    row = layout.take<uint16_t>(values);
    down = layout.take<uint16_t>(values);
  }
};

}  // namespace dlpipe::augment
#endif

HWY_BEFORE_NAMESPACE();
namespace dlpipe::augment {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

void AverageTaps(const ConstImageView& in, std::span<const TapOffset> taps, const ImageView& out) {
  constexpr int kPiece = 64;
  const int size = out.width * out.channels;
  const auto count = static_cast<uint32_t>(taps.size());
  // sum / count as sum * (2^24 / count rounded up) / 2^24: exact for sums below 2^16.
  const uint32_t scale = ((1u << 24) + count - 1) / count;
  for (int y = 0; y < out.height; ++y) {
    for (int i = 0; i < size; i += kPiece) {
      const int piece = std::min(kPiece, size - i);
      alignas(64) uint16_t sum[kPiece];
      for (int j = 0; j < kPiece; ++j) sum[j] = static_cast<uint16_t>(count / 2);
      for (const TapOffset& tap : taps) {
        const uint8_t* HWY_RESTRICT from = in.row(y + tap.y) + i + ptrdiff_t{tap.x} * out.channels;
        if (piece == kPiece) {
          for (int j = 0; j < kPiece; ++j) sum[j] = static_cast<uint16_t>(sum[j] + from[j]);
        } else {
          for (int j = 0; j < piece; ++j) sum[j] = static_cast<uint16_t>(sum[j] + from[j]);
        }
      }
      uint8_t* HWY_RESTRICT to = out.row(y) + i;
      for (int j = 0; j < piece; ++j) to[j] = static_cast<uint8_t>((uint64_t{sum[j]} * scale) >> 24);
    }
  }
}

template <class V>
HWY_INLINE void InOrder(V& low, V& high) {
  const V lower = hn::Min(low, high);
  high = hn::Max(low, high);
  low = lower;
}

// The median of kAll values, of which a[0] to a[kHeld - 1] are held: neither the smallest nor the largest of more than half of
// all values is the median. Both are removed, and the next value is added, until three are left.
template <int kAll, int kHeld, class V, class Load>
HWY_INLINE V MedianOf(V* HWY_RESTRICT a, const Load& load) {
  if constexpr (kHeld == 3) {
    InOrder(a[0], a[2]);
    InOrder(a[0], a[1]);
    return hn::Min(a[1], a[2]);
  } else {
    for (int i = 0; i < kHeld / 2; ++i) InOrder(a[i], a[kHeld - 1 - i]);
    for (int i = 1; i < (kHeld + 1) / 2; ++i) InOrder(a[0], a[i]);
    for (int i = kHeld / 2; i < kHeld - 1; ++i) InOrder(a[i], a[kHeld - 1]);
    a[0] = load(2 * (kAll / 2 + 2) - kHeld);
    return MedianOf<kAll, kHeld - 1>(a, load);
  }
}

template <int kSide>
void Medians(const ConstImageView& in, const ImageView& out) {
  const hn::ScalableTag<uint8_t> d;
  using V = hn::Vec<decltype(d)>;
  constexpr int kAll = kSide * kSide;
  constexpr int kHeld = kAll / 2 + 2;
  const int size = out.width * out.channels;
  const auto lanes = static_cast<int>(hn::Lanes(d));
  for (int y = 0; y < out.height; ++y) {
    const uint8_t* rows[kSide];
    for (int dy = 0; dy < kSide; ++dy) rows[dy] = in.row(y + dy);
    uint8_t* const to = out.row(y);
    for (int next = 0; next < size; next += lanes) {
      const int i = std::min(next, size - lanes);  // the last vector may repeat some
      const auto load = [&](int t) HWY_ATTR {
        return hn::LoadU(d, rows[t / kSide] + i + ptrdiff_t{t % kSide} * in.channels);
      };
      V held[kHeld];
      for (int t = 0; t < kHeld; ++t) held[t] = load(t);
      hn::StoreU(MedianOf<kAll, kHeld>(held, load), d, to + i);
    }
  }
}

bool Median(const ConstImageView& in, int side, const ImageView& out) {
  if (out.width * out.channels < static_cast<int>(hn::Lanes(hn::ScalableTag<uint8_t>()))) return false;
  if (side == 3) Medians<3>(in, out);
  if (side == 5) Medians<5>(in, out);
  return side == 3 || side == 5;
}

/// Computes one result; `taps` are the rows of the filter's taps, at the position of the first result.
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

using S16 = hn::ScalableTag<int16_t>;
using S32 = hn::ScalableTag<int32_t>;
using V32 = hn::Vec<S32>;

/// sum / divisor, a power of two.
struct ShiftedDown {
  int bits;
  HWY_INLINE V32 operator()(V32 sum) const { return hn::ShiftRightSame(sum, bits); }
};
/// sum / divisor if that is positive, else 0 or less. Adding half a step keeps the product away from whole
/// numbers, where rounding errors matter, for results below 256 and divisors below 2^12.
struct Divided {
  float scale;
  HWY_INLINE V32 operator()(V32 sum) const {
    const hn::RebindToFloat<S32> floats;
    const auto real = hn::Add(hn::ConvertTo(floats, sum), hn::Set(floats, 0.5f));
    return hn::ConvertTo(S32(), hn::Mul(real, hn::Set(floats, scale)));
  }
};

template <class Quotient>
void FilteredVectors(const uint8_t* const* all_taps, const Terms3x3& filter, int divisor,
                     const Quotient& quotient, int size, uint8_t* to) {
  const S16 d16;
  const S32 d32;
  const hn::Rebind<uint8_t, S16> d8;
  const auto lanes = static_cast<int>(hn::Lanes(d16));
  for (int next = 0; next < size; next += lanes) {
    const int i = std::min(next, size - lanes);  // the last vector may repeat some
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
      const Terms3x3::Term& b = filter.terms[t + 1];  // has weight 0 if there is none
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
  if (size < static_cast<int>(hn::Lanes(S16()))) {
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

using D16 = hn::ScalableTag<uint16_t>;
using D8 = hn::Rebind<uint8_t, D16>;
using V16 = hn::Vec<D16>;
constexpr D16 d16;
constexpr D8 d8;
constexpr size_t kPiece = BlurRows::kPiece;
constexpr size_t kLanes = hn::MaxLanes(D16());
constexpr size_t kVectors = kPiece / kLanes;

/// kPiece values of a row with `left` more values: in place, or a copy if there are fewer, so that nothing
/// beyond the row is read.
HWY_INLINE const uint8_t* Piece(const uint8_t* from, size_t left, uint8_t* copy) {
  if (left >= kPiece) return from;
  std::memcpy(copy, from, left);
  return copy;
}

// A product of 8.8 bits with a weight of 0.16 bits, in 8.8 bits, truncated.
HWY_INLINE V16 Product(const uint8_t* from, V16 weight) {
  return hn::MulHigh(hn::ShiftLeft<8>(hn::PromoteTo(d16, hn::LoadU(d8, from))), weight);
}

HWY_INLINE void StorePixels(const V16* sums, size_t left, uint8_t* to) {
  const hn::RebindToSigned<D16> signed16;
  uint8_t few[kPiece];
  uint8_t* const place = left >= kPiece ? to : few;
  for (size_t v = 0; v < kVectors; ++v) {
    const auto pixels = hn::DemoteTo(d8, hn::BitCast(signed16, hn::ShiftRight<8>(sums[v])));
    hn::StoreU(pixels, d8, place + v * kLanes);
  }
  if (place == few) std::memcpy(to, few, left);
}

// Rounds by adding half of a last bit per tap, because products are truncated, and half of one for pixels.
void Convolve(const BlurRows& in, std::span<const uint16_t> weights, const ImageView& out,
              uint16_t* HWY_RESTRICT row, uint16_t*) {
  const size_t taps = weights.size();
  const size_t values = in.values();
  const size_t size = static_cast<size_t>(out.width) * static_cast<size_t>(out.channels);
  const V16 half = hn::Set(d16, static_cast<uint16_t>(taps / 2));
  const V16 rounded_half = hn::Set(d16, static_cast<uint16_t>(128 + taps / 2));
  uint16_t* const inside = row + ptrdiff_t{in.first} * in.channels;
  uint8_t few[kPiece] = {};
  for (int y = 0; y < out.height; ++y) {
    for (size_t i = 0; i < values; i += kPiece) {
      V16 sums[kVectors];
      for (V16& sum : sums) sum = half;
      for (size_t t = 0; t < taps; ++t) {
        const uint8_t* const from = Piece(in.rows[static_cast<size_t>(y) + t] + i, values - i, few);
        const V16 weight = hn::Set(d16, weights[t]);
        for (size_t v = 0; v < kVectors; ++v) sums[v] = hn::Add(sums[v], Product(from + v * kLanes, weight));
      }
      for (size_t v = 0; v < kVectors; ++v) hn::StoreU(sums[v], d16, inside + i + v * kLanes);
    }
    in.fill_margins(row);
    for (size_t i = 0; i < size; i += kPiece) {
      V16 sums[kVectors];
      for (V16& sum : sums) sum = rounded_half;
      for (size_t t = 0; t < taps; ++t) {
        const uint16_t* const from = row + i + t * static_cast<size_t>(in.channels);
        const V16 weight = hn::Set(d16, weights[t]);
        for (size_t v = 0; v < kVectors; ++v)
          sums[v] = hn::Add(sums[v], hn::MulHigh(hn::LoadU(d16, from + v * kLanes), weight));
      }
      StorePixels(sums, size - i, out.row(y) + i);
    }
  }
}

// The same for equal weights: a product depends only on the value, so each is computed once, and vertical
// sums are updated from row to row.
void ConvolveEven(const BlurRows& in, std::span<const uint16_t> weights, const ImageView& out,
                  uint16_t* HWY_RESTRICT row, uint16_t* HWY_RESTRICT down) {
  const size_t taps = weights.size();
  const size_t values = in.values();
  const size_t size = static_cast<size_t>(out.width) * static_cast<size_t>(out.channels);
  const V16 weight = hn::Set(d16, weights[0]);
  const V16 rounded_half = hn::Set(d16, static_cast<uint16_t>(128 + taps / 2));
  uint16_t* const inside = row + ptrdiff_t{in.first} * in.channels;
  uint8_t few[2][kPiece] = {};
  std::fill_n(down, (values + kPiece - 1) / kPiece * kPiece, static_cast<uint16_t>(taps / 2));
  for (size_t t = 0; t + 1 < taps; ++t) {
    for (size_t i = 0; i < values; i += kPiece) {
      const uint8_t* const from = Piece(in.rows[t] + i, values - i, few[0]);
      for (size_t j = 0; j < kPiece; j += kLanes) {
        const V16 sum = hn::LoadU(d16, down + i + j);
        hn::StoreU(hn::Add(sum, Product(from + j, weight)), d16, down + i + j);
      }
    }
  }
  for (int y = 0; y < out.height; ++y) {
    const uint8_t* const* const rows = in.rows + y;
    for (size_t i = 0; i < values; i += kPiece) {
      const uint8_t* const come = Piece(rows[taps - 1] + i, values - i, few[0]);
      const uint8_t* const gone = Piece(rows[0] + i, values - i, few[1]);
      for (size_t j = 0; j < kPiece; j += kLanes) {
        const V16 sum = hn::Add(hn::LoadU(d16, down + i + j), Product(come + j, weight));
        hn::StoreU(hn::MulHigh(sum, weight), d16, inside + i + j);
        hn::StoreU(hn::Sub(sum, Product(gone + j, weight)), d16, down + i + j);
      }
    }
    in.fill_margins(row);
    for (size_t i = 0; i < size; i += kPiece) {
      V16 sums[kVectors];
      for (V16& sum : sums) sum = rounded_half;
      for (size_t t = 0; t < taps; ++t) {
        const uint16_t* const from = row + i + t * static_cast<size_t>(in.channels);
        for (size_t v = 0; v < kVectors; ++v) sums[v] = hn::Add(sums[v], hn::LoadU(d16, from + v * kLanes));
      }
      StorePixels(sums, size - i, out.row(y) + i);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace dlpipe::augment
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dlpipe::augment {

HWY_EXPORT(AverageTaps);
HWY_EXPORT(Median);

bool median_small(const ConstImageView& with_margins, int side, const ImageView& out) {
  return HWY_DYNAMIC_DISPATCH(Median)(with_margins, side, out);
}

void average_taps(const ConstImageView& with_margins, std::span<const TapOffset> taps, const ImageView& out) {
  HWY_DYNAMIC_DISPATCH(AverageTaps)(with_margins, taps, out);
}

ConstImageView with_margin(const ConstImageView& in, const Region& region, const Region& window, int width,
                           int height, int reach_x, int reach_y, Border border,
                           std::vector<std::byte>& work) {
  const auto seen = [border](int i, int size) {
    return border == Border::kReplicate ? std::clamp(i, 0, size - 1) : reflected(i, size);
  };
  const int channels = in.channels;
  const int wide = window.width + 2 * reach_x;
  const int high = window.height + 2 * reach_y;
  constexpr size_t kPadding = 64;
  const size_t stride = size_t(wide) * size_t(channels);
  if (work.size() < stride * size_t(high) + kPadding) work.resize(stride * size_t(high) + kPadding);
  uint8_t* const begin = reinterpret_cast<uint8_t*>(work.data());
  const int left = window.x - reach_x;
  const int first = std::clamp(-left, 0, wide);  // columns [first, last) are in the image
  const int last = std::clamp(width - left, first, wide);
  const auto copy_pixel = [channels](const uint8_t* pixel, uint8_t* place) {
    for (int c = 0; c < channels; ++c) place[c] = pixel[c];
  };
  for (int y = 0; y < high; ++y) {
    const uint8_t* from = in.row(seen(window.y - reach_y + y, height) - region.y);
    uint8_t* to = begin + size_t(y) * stride;
    std::memcpy(to + ptrdiff_t{first} * channels, from + ptrdiff_t{left + first - region.x} * channels,
                size_t(last - first) * size_t(channels));
    for (int x = 0; x < wide; ++x) {
      if (x == first) x = last;
      if (x >= wide) break;
      copy_pixel(from + ptrdiff_t{seen(left + x, width) - region.x} * channels, to + ptrdiff_t{x} * channels);
    }
  }
  return {begin, wide, high, channels, static_cast<ptrdiff_t>(stride)};
}

HWY_EXPORT(Convolve3x3);

void convolve3x3(const ConstImageView& with_margins, const std::array<int, 9>& weights, int divisor,
                 const ImageView& out) {
  HWY_DYNAMIC_DISPATCH(Convolve3x3)(with_margins, terms_of(weights), divisor, out);
}

HWY_EXPORT(Convolve);
HWY_EXPORT(ConvolveEven);

void convolve(const ImagePart& part, std::span<const uint16_t> weights, const ImageView& out,
              std::vector<std::byte>& work) {
  const int reach = static_cast<int>(weights.size() / 2);
  BlurRows in;
  in.wide = part.window.width + 2 * reach;
  in.left = part.window.x - reach;
  in.width = part.width;
  in.channels = part.in.channels;
  in.first = std::clamp(-in.left, 0, in.wide);
  in.last = std::clamp(in.width - in.left, in.first, in.wide);
  const auto high = static_cast<size_t>(part.window.height) + 2 * static_cast<size_t>(reach);
  Layout measure(nullptr);
  BlurMemory(in, high, measure);
  if (work.size() < measure.needed()) work.resize(measure.needed());
  Layout layout(work.data());
  const BlurMemory memory(in, high, layout);
  const ptrdiff_t first = ptrdiff_t{in.left + in.first - part.region.x} * in.channels;
  for (size_t y = 0; y < high; ++y) {
    const int seen = reflected(part.window.y - reach + static_cast<int>(y), part.height);
    memory.rows[y] = part.in.row(seen - part.region.y) + first;
  }
  in.rows = memory.rows;
  const bool is_even =
      std::all_of(weights.begin(), weights.end(), [&](uint16_t weight) { return weight == weights[0]; });
  if (is_even) {
    HWY_DYNAMIC_DISPATCH(ConvolveEven)(in, weights, out, memory.row, memory.down);
  } else {
    HWY_DYNAMIC_DISPATCH(Convolve)(in, weights, out, memory.row, memory.down);
  }
}

}  // namespace dlpipe::augment
#endif  // HWY_ONCE
