// Windows bitmaps without compression: 1, 4 and 8 bits with a palette, 16, 24 and 32 bits; alpha is dropped. Regions are
// read in place. Pure functions.
#pragma once

#include <cstddef>
#include <span>

#include "dlpipe/base/error.h"
#include "dlpipe/base/image.h"
#include "dlpipe/io/data/codec/image_codec.h"

namespace dlpipe::data {

bool is_bmp(std::span<const std::byte> bytes);
/// Checks the header against the number of bytes that follow. One channel where the palette is grey.
Result<ImageInfo> probe_bmp(std::span<const std::byte> bytes);
Status decode_bmp(std::span<const std::byte> bytes, const Region& region, const ImageView& out);

}  // namespace dlpipe::data
