// Images stored as plain pixels: dlpipe's raw layout, Windows bitmaps and Netpbm. Regions are read in place. Pure functions.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "dlpipe/codec.h"
#include "dlpipe/error.h"
#include "dlpipe/image.h"

namespace dlpipe::data {

// Raw pixels: a 20-byte header and width x height x channels bytes, rows from the top (FORMAT.md).

inline constexpr std::string_view kRawMagic = "DLPRAW1\n";
inline constexpr size_t kRawHeaderBytes = 20;

/// Checks the header against the number of bytes that follow.
Result<ImageInfo> probe_raw(std::span<const std::byte> bytes);
Status decode_raw(std::span<const std::byte> bytes, const Region& region, const ImageView& out);

// Windows bitmaps without compression: 1, 4 and 8 bits with a palette, 16, 24 and 32 bits; alpha is dropped.

bool is_bmp(std::span<const std::byte> bytes);
/// Checks the header against the number of bytes that follow. One channel if the palette is grey.
Result<ImageInfo> probe_bmp(std::span<const std::byte> bytes);
Status decode_bmp(std::span<const std::byte> bytes, const Region& region, const ImageView& out);

// Netpbm's binary images: P4 (bits), P5 (grey) and P6 (RGB), 8 or 16 bits. Samples are scaled to their largest value as in
// Pillow: to 8 bits; grey with more than 8 bits to 16, keeping the upper byte.

/// P1 to P6 and a blank.
bool is_pnm(std::span<const std::byte> bytes);
/// Checks the header against the number of bytes that follow. kUnsupported for text images (P1 to P3).
Result<ImageInfo> probe_pnm(std::span<const std::byte> bytes);
Status decode_pnm(std::span<const std::byte> bytes, const Region& region, const ImageView& out);

}  // namespace dlpipe::data
