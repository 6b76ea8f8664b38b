// What a coefficient record's packed tiles are made of (io/data/FORMAT.md, "Coefficients"): for the codec,
// which writes and reads them, and for the kernels that read them on a GPU.
#pragma once

#include <array>
#include <cstdint>

namespace dlpipe::coef {

inline constexpr int kMaxComponents = 4;

/// What the components mean, as the JPEG says (JFIF, Adobe's marker, component ids) and libjpeg decides.
enum class ColorModel : uint8_t { kGrey = 0, kYCbCr = 1, kRgb = 2, kCmyk = 3, kYcck = 4 };

/// Natural (row by row) position of each zigzag position (ITU-T T.81, figure 5).
inline constexpr std::array<uint8_t, 64> kZigzag = {
    0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,  12, 19, 26, 33, 40, 48,
    41, 34, 27, 20, 13, 6,  7,  14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23,
    30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63};
inline constexpr int kGroups = 8;  // of eight coefficients in zigzag order
/// Blocks of one row that share a beginning are a tile, the unit of random access; a record's tiles have this
/// many, or a half or a quarter.
inline constexpr int kMaxTileBlocks = 16;

/// A packed tile begins with the width of its DC differences and its first DC.
inline constexpr int kDcWidthBits = 4;
inline constexpr int kFirstDcBits = 12;  // two's complement
inline constexpr int kMaxDcWidth = 13;   // of differences between such, signs in the lowest bit
inline constexpr int kRawDc = 15;        // instead of a width: kRawDcBits a DC
inline constexpr int kRawDcBits = 16;

/// A block begins with its kind: how many groups it has, and how many bits name a group's width.
inline constexpr int kKindBits = 4;
inline constexpr int kWideWidthBits = 4;  // where the narrow ones don't suffice
constexpr int narrow_width_bits(int group) {
  return group < 3 ? 3 : 2;
}
/// Kinds: 0 to 8 groups of narrow widths, then 2 to 8 of wide ones.
inline constexpr int kFirstWideKind = kGroups + 1;
inline constexpr int kFewestWideGroups = 2;
/// The widest field whose values fit a byte with their signs, in at most seven of a group's eight.
inline constexpr int kWidestByte = 8;

/// Bits a value of a group whose width's field holds `field`: 0 to 8 for itself, then 10 to 16.
constexpr int packed_width(int field) {
  return field + (field > kWidestByte ? 1 : 0);
}

/// More bytes than these no packed tile has: DCs of 16 bits, and 63 values of 16 bits in every block.
inline constexpr int kMaxPackedTileBytes =
    (kDcWidthBits + kFirstDcBits + kMaxTileBlocks * kRawDcBits +
     kMaxTileBlocks * (kKindBits + kGroups * kWideWidthBits + 63 + 63 * packed_width(15)) + 7) /
    8;

}  // namespace dlpipe::coef
