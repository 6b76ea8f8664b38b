// JPEG coefficients: the format of a coefficient record's packed tiles (io/data/FORMAT.md, "Coefficients"), and the integer
// formulas from their bits to pixels, for the host and a GPU. io/data/codec writes and reads tiles and compares its vector code
// with these formulas; engine/cuda calls them. The transform, the upsampling and the colours are libjpeg's (jidctint.c,
// jdsample.c, jdcolor.c), with the same pixels, bit for bit. Pure functions.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "dlpipe/dtype.h"

namespace dlpipe::coef {

// ---- the format

inline constexpr int kMaxComponents = 4;

/// The meaning of the components, from the JPEG's JFIF and Adobe markers and component ids, by libjpeg's rules.
enum class ColorModel : uint8_t { kGrey = 0, kYCbCr = 1, kRgb = 2, kCmyk = 3, kYcck = 4 };

/// Natural (row by row) position of each zigzag position (ITU-T T.81, figure 5).
inline constexpr std::array<uint8_t, 64> kZigzag = {
    0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,  12, 19, 26, 33, 40, 48,
    41, 34, 27, 20, 13, 6,  7,  14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23,
    30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63};
inline constexpr int kGroups = 8;  // of eight coefficients in zigzag order
/// A tile is a run of blocks in one row of blocks that is packed together: the unit of random access. A
/// record's tiles have this many blocks, or a half or a quarter.
inline constexpr int kMaxTileBlocks = 16;

/// A packed tile begins with the width of its DC differences and its first DC.
inline constexpr int kDcWidthBits = 4;
inline constexpr int kFirstDcBits = 12;  // two's complement
inline constexpr int kMaxDcWidth = 13;   // of DC differences, sign in the lowest bit
inline constexpr int kRawDc = 15;        // instead of a width: kRawDcBits per DC
inline constexpr int kRawDcBits = 16;

/// A block begins with its kind: the number of its groups, and how many bits hold a group's width.
inline constexpr int kKindBits = 4;
inline constexpr int kWideWidthBits = 4;  // if the narrow widths don't suffice
constexpr int narrow_width_bits(int group) {
  return group < 3 ? 3 : 2;
}
/// Kinds: 0 to 8 groups with narrow widths, then 2 to 8 groups with wide ones.
inline constexpr int kFirstWideKind = kGroups + 1;
inline constexpr int kFewestWideGroups = 2;
/// The widest field whose values fit in a byte with their signs, if at most seven of the group's eight values are nonzero.
inline constexpr int kWidestByte = 8;

/// Bits per value of a group with the width field `field`: fields 0 to 8 are the width itself, larger ones mean 10 to 16.
constexpr int packed_width(int field) {
  return field + (field > kWidestByte ? 1 : 0);
}

/// The largest size of a packed tile: DCs of 16 bits, and 63 values of 16 bits in every block.
inline constexpr int kMaxPackedTileBytes =
    (kDcWidthBits + kFirstDcBits + kMaxTileBlocks * kRawDcBits +
     kMaxTileBlocks * (kKindBits + kGroups * kWideWidthBits + 63 + 63 * packed_width(15)) + 7) /
    8;

// ---- small formulas

DLPIPE_HOST_DEVICE int bit_count(uint32_t bits) {
#if defined(__CUDA_ARCH__)
  return __popc(bits);
#else
  return std::popcount(bits);
#endif
}
DLPIPE_HOST_DEVICE int clamped(int value, int low, int high) {
  return value < low ? low : value > high ? high : value;
}
DLPIPE_HOST_DEVICE uint8_t byte_of(int value) {
  return static_cast<uint8_t>(clamped(value, 0, 255));
}

// ---- a packed tile

/// A sequence of bits in 32-bit words, lowest bit first; zeros follow the last word.
struct TileBits {
  const uint32_t* words;
  uint32_t count;  // of words

  /// 32 bits from `bit` on.
  DLPIPE_HOST_DEVICE uint32_t at(uint32_t bit) const {
    const uint32_t i = bit / 32;
    const uint64_t low = i < count ? words[i] : 0;
    const uint64_t high = i + 1 < count ? words[i + 1] : 0;
    return static_cast<uint32_t>((high << 32 | low) >> (bit % 32));
  }
};

/// Reads the DCs of the first `count` of a tile's `blocks` blocks. Advances `at` past all DCs; returns false
/// for a corrupt tile.
DLPIPE_HOST_DEVICE bool read_packed_dc(const TileBits& bits, uint32_t& at, int blocks, int count,
                                       int16_t* dc) {
  const uint32_t head = bits.at(at);
  const uint32_t width = head & ((1u << kDcWidthBits) - 1);
  uint32_t from = at + kDcWidthBits + kFirstDcBits;
  if (width == kRawDc) {
    for (int i = 0; i < count; ++i)
      dc[i] = static_cast<int16_t>(bits.at(from + static_cast<uint32_t>(kRawDcBits * i)));
    at = from + static_cast<uint32_t>(kRawDcBits * blocks);
    return true;
  }
  if (width > kMaxDcWidth) return false;
  int value = static_cast<int>(head << (32 - kDcWidthBits - kFirstDcBits)) >> (32 - kFirstDcBits);
  dc[0] = static_cast<int16_t>(value);
  for (int i = 1; i < count; ++i, from += width) {
    const uint32_t coded = bits.at(from) & ((1u << width) - 1);
    value += static_cast<int>(coded >> 1) ^ -static_cast<int>(coded & 1);
    dc[i] = static_cast<int16_t>(value);
  }
  at = from + width * static_cast<uint32_t>(blocks - count);
  return true;
}

/// The header of a block, without its values. No initializers, because it is in shared memory.
struct PackedBlock {
  uint64_t present;  // bit i: zigzag position i isn't zero
  uint32_t widths;   // four bits per group: its field
  uint32_t values;   // the bit where the values begin
  uint32_t end;      // the bit after them
  bool wide;         // some group's values don't fit bytes
  bool overfull;     // a group has eight values of kWidestByte bits, which does not occur in valid files

  DLPIPE_HOST_DEVICE int width(int group) const {
    return packed_width(static_cast<int>(widths >> (4 * group) & 15));
  }
  DLPIPE_HOST_DEVICE uint32_t mask(int group) const {
    return static_cast<uint32_t>(present >> (8 * group)) & 0xff;
  }
  /// The bit where the group's values begin.
  DLPIPE_HOST_DEVICE uint32_t begin_of(int group) const {
    uint32_t at = values;
    for (int before = 0; before < group; ++before)
      at += static_cast<uint32_t>(bit_count(mask(before)) * width(before));
    return at;
  }
};

/// A block of zeros without any bits.
DLPIPE_HOST_DEVICE PackedBlock empty_block(uint32_t at) {
  return {0, 0, at, at, false, false};
}

DLPIPE_HOST_DEVICE PackedBlock read_packed_block(const TileBits& bits, uint32_t at) {
  PackedBlock block = empty_block(at);
  const int kind = static_cast<int>(bits.at(at) & ((1u << kKindBits) - 1));
  at += kKindBits;
  const bool wide_fields = kind >= kFirstWideKind;
  const int groups = wide_fields ? kind - kFirstWideKind + kFewestWideGroups : kind;
  uint32_t fields = bits.at(at);
  for (int group = 0; group < groups; ++group) {
    const auto size = static_cast<uint32_t>(wide_fields ? kWideWidthBits : narrow_width_bits(group));
    block.widths |= (fields & ((1u << size) - 1)) << (4 * group);
    fields >>= size;
    at += size;
  }
  uint32_t value_bits = 0;
  for (int group = 0; group < groups; ++group) {
    const int field = static_cast<int>(block.widths >> (4 * group) & 15);
    if (field == 0) continue;
    // The first group's mask has no bit for the DC coefficient.
    const uint32_t mask = group == 0 ? (bits.at(at) & 0x7f) << 1 : bits.at(at) & 0xff;
    at += group == 0 ? 7 : 8;
    block.present |= uint64_t{mask} << (8 * group);
    block.wide = block.wide || field > kWidestByte;
    block.overfull = block.overfull || (field == kWidestByte && mask == 0xff);
    value_bits += static_cast<uint32_t>(bit_count(mask) * packed_width(field));
  }
  block.values = at;
  block.end = at + value_bits;
  return block;
}

/// Decodes a coefficient from its `width` bits: |value| - 1 above the sign bit. Eight bits only represent up
/// to +-127; corrupt bits beyond that return 0.
DLPIPE_HOST_DEVICE int16_t packed_value(uint32_t bits, int width) {
  const uint32_t coded = bits & ((1u << width) - 1);
  const int size = static_cast<int>(coded >> 1) + 1;
  if (width == kWidestByte && size > 127) return 0;
  return static_cast<int16_t>((coded & 1) != 0 ? -size : size);
}

// ---- blocks to samples

/// In 16 bits, like libjpeg-turbo's vector code.
DLPIPE_HOST_DEVICE int16_t dequantised(int16_t value, int16_t quant) {
  return static_cast<int16_t>(value * quant);
}

inline constexpr int kColumnShift = 11;  // for inverse_transform: columns first,
inline constexpr int kRowShift = 18;     // then rows

/// One dimension of jidctint.c's inverse transform, as sums of products; in integers they equal libjpeg's
/// factored form. `step` is the distance between inputs.
template <int kShift>
DLPIPE_HOST_DEVICE void inverse_transform(int16_t* data, int step) {
  int in[8];
  for (int k = 0; k < 8; ++k) in[k] = data[k * step];
  const int half = 1 << (kShift - 1);
  const int even0 = (in[0] + in[4]) * 8192 + half;
  const int even1 = (in[0] - in[4]) * 8192 + half;
  const int even2 = in[2] * 4433 + in[6] * -10704;
  const int even3 = in[2] * 10703 + in[6] * 4433;
  const int odd0 = in[1] * 2260 + in[3] * -6436 + in[5] * 9633 + in[7] * -11363;
  const int odd1 = in[1] * 6437 + in[3] * -11362 + in[5] * 2261 + in[7] * 9633;
  const int odd2 = in[1] * 9633 + in[3] * -2259 + in[5] * -11362 + in[7] * -6436;
  const int odd3 = in[1] * 11363 + in[3] * 9633 + in[5] * 6437 + in[7] * 2260;
  const int sums[4] = {even0 + even3, even1 + even2, even1 - even2, even0 - even3};
  const int odds[4] = {odd3, odd2, odd1, odd0};
  for (int k = 0; k < 4; ++k) {
    data[k * step] = static_cast<int16_t>(clamped((sums[k] + odds[k]) >> kShift, -32768, 32767));
    data[(7 - k) * step] = static_cast<int16_t>(clamped((sums[k] - odds[k]) >> kShift, -32768, 32767));
  }
}

DLPIPE_HOST_DEVICE uint8_t sample_of(int16_t transformed) {
  return byte_of(transformed + 128);
}

// ---- upsampling to the number of pixels

/// How a component is upsampled to the image's pixels: libjpeg's choice (jdsample.c).
enum class Upsampling : uint8_t { kNone, kWide, kWideAndHigh, kHigh, kRepeat };

/// `width`: the component's, in samples; a sample covers fx x fy pixels.
constexpr Upsampling upsampling_of(int width, int fx, int fy) {
  if (fx == 1 && fy == 1) return Upsampling::kNone;
  if (fx == 2 && fy == 1 && width > 2) return Upsampling::kWide;
  if (fx == 2 && fy == 2 && width > 2) return Upsampling::kWideAndHigh;
  if (fx == 1 && fy == 2) return Upsampling::kHigh;
  return Upsampling::kRepeat;
}

/// Four times the value at a quarter of the distance from `near` to `far`.
DLPIPE_HOST_DEVICE int weighted(int near, int far) {
  return 3 * near + far;
}
/// A pixel of an even or odd column between two columns. With `vertical`, the values come from weighted().
DLPIPE_HOST_DEVICE uint8_t widened(int near, int far, bool odd, bool vertical) {
  const int sum = weighted(near, far);
  return static_cast<uint8_t>(vertical ? (sum + (odd ? 7 : 8)) >> 4 : (sum + (odd ? 2 : 1)) >> 2);
}
/// The rounding term for a pixel of an even or odd row between two rows.
DLPIPE_HOST_DEVICE int row_bias(bool odd) {
  return odd ? 2 : 1;
}
DLPIPE_HOST_DEVICE uint8_t between_rows(int near, int far, int bias) {
  return static_cast<uint8_t>((weighted(near, far) + bias) >> 2);
}

/// A component of width x height samples, upsampled to pixels.
struct Sampling {
  Upsampling upsampling;
  int width;
  int height;
  int fx;  // pixels per sample
  int fy;
};

/// Pixel (x, y) of a component whose samples are sample_at(x, y). Beyond the borders, the first and last
/// samples are repeated.
template <class SampleAt>
DLPIPE_HOST_DEVICE uint8_t upsampled(const Sampling& s, int x, int y, const SampleAt& sample_at) {
  if (s.upsampling == Upsampling::kNone) return sample_at(x, y);
  const int here_x = x / s.fx;
  const int here_y = y / s.fy;
  if (s.upsampling == Upsampling::kRepeat) return sample_at(here_x, here_y);
  const bool odd_x = x % 2 != 0;
  const bool odd_y = y % 2 != 0;
  const int other_x = clamped(odd_x ? here_x + 1 : here_x - 1, 0, s.width - 1);
  const int other_y = clamped(odd_y ? here_y + 1 : here_y - 1, 0, s.height - 1);
  if (s.upsampling == Upsampling::kHigh)
    return between_rows(sample_at(x, here_y), sample_at(x, other_y), row_bias(odd_y));
  if (s.upsampling == Upsampling::kWide)
    return widened(sample_at(here_x, y), sample_at(other_x, y), odd_x, false);
  return widened(weighted(sample_at(here_x, here_y), sample_at(here_x, other_y)),
                 weighted(sample_at(other_x, here_y), sample_at(other_x, other_y)), odd_x, true);
}

// ---- colours

struct Rgb {
  uint8_t r, g, b;
};

DLPIPE_HOST_DEVICE Rgb ycc_to_rgb(int y, int cb, int cr) {
  const int blue = cb - 128;
  const int red = cr - 128;
  return {byte_of(y + ((91881 * red + 32768) >> 16)),
          byte_of(y + ((-22554 * blue - 46802 * red + 32768) >> 16)),
          byte_of(y + ((116130 * blue + 32768) >> 16))};
}

/// Pillow's convert("L").
DLPIPE_HOST_DEVICE uint8_t grey_of(Rgb color) {
  return static_cast<uint8_t>((color.r * 19595u + color.g * 38470u + color.b * 7471u + 0x8000u) >> 16);
}

/// a * b / 255, rounded to nearest, without a division.
DLPIPE_HOST_DEVICE int multiply_255(int a, int b) {
  const int product = a * b + 128;
  return ((product >> 8) + product) >> 8;
}
/// Pillow's CMYK to RGB, for inks stored inverted, as in JPEG files.
DLPIPE_HOST_DEVICE Rgb inverted_cmyk_to_rgb(int cyan, int magenta, int yellow, int white) {
  return {byte_of(white - multiply_255(255 - cyan, white)),
          byte_of(white - multiply_255(255 - magenta, white)),
          byte_of(white - multiply_255(255 - yellow, white))};
}

}  // namespace dlpipe::coef
