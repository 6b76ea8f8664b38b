// Netpbm's binary pictures: P4 (bits), P5 (grey) and P6 (RGB), 8 or 16 bits. Samples are scaled to their largest value as
// Pillow does it: to 8 bits, grey of more than 8 bits to 16, of which the upper byte is kept. Regions are read in place. Pure
// functions.
#pragma once

#include <cstddef>
#include <span>

#include "dlpipe/base/error.h"
#include "dlpipe/base/image.h"
#include "dlpipe/io/data/codec/image_codec.h"

namespace dlpipe::data {

/// P1 to P6 and a blank.
bool is_pnm(std::span<const std::byte> bytes);
/// Checks the header against the number of bytes that follow. kUnsupported for pictures in digits (P1 to P3).
Result<ImageInfo> probe_pnm(std::span<const std::byte> bytes);
Status decode_pnm(std::span<const std::byte> bytes, const Region& region, const ImageView& out);

}  // namespace dlpipe::data
