#include "dlpipe/augment/blur_kernels.h"

#include <algorithm>
#include <cstring>

#include "dlpipe/augment/blur_rows.h"

// Vectors stand in arrays here, which SVE's and RVV's can't: such machines run the NEON or the plain code.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "dlpipe/augment/blur_kernels.cpp"
#include <hwy/foreach_target.h>  // NOLINT: includes this file once a target

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace dlpipe::augment {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using D16 = hn::ScalableTag<uint16_t>;
using D8 = hn::Rebind<uint8_t, D16>;
using V16 = hn::Vec<D16>;
constexpr D16 d16;
constexpr D8 d8;
constexpr size_t kPiece = BlurRows::kPiece;
constexpr size_t kLanes = hn::MaxLanes(D16());
constexpr size_t kVectors = kPiece / kLanes;

/// Values of a row, of which `left` are the row's: where they are, or a copy, so that no more is read.
HWY_INLINE const uint8_t* Piece(const uint8_t* from, size_t left, uint8_t* copy) {
  if (left >= kPiece) return from;
  std::memcpy(copy, from, left);
  return copy;
}

// A product of 8.8 bits with a weight of 0.16 bits, in 8.8 bits, is cut off.
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

// Half of a last bit per tap is added, as products are cut off, and for pixels half of one.
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

// The same where all weights are equal: a product is the value's alone, so each is made once, and sums down go from row to
// row.
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

HWY_EXPORT(Convolve);
HWY_EXPORT(ConvolveEven);

void convolve(const PicturePart& part, std::span<const uint16_t> weights, const ImageView& out,
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
