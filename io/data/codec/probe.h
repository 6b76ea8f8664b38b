// Headers of images, parsed without a codec: sizes, components and EXIF orientation. Bytes may hold anything;
// every offset is checked. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "dlpipe/base/error.h"
#include "dlpipe/io/data/codec/image_codec.h"

namespace dlpipe::data {

/// The layout that the first bytes announce; kNone for anything else.
ImageLayout sniff_layout(std::span<const std::byte> bytes);
/// `bytes` are the first ones of a file of `file_bytes`; kCorrupt where they are too few to tell.
Result<ImageInfo> probe_jpeg(std::span<const std::byte> bytes, uint64_t file_bytes);
Result<ImageInfo> probe_png(std::span<const std::byte> bytes, uint64_t file_bytes);
/// Orientation in a TIFF block (EXIF: CIPA DC-008, tag 0x0112 of IFD 0); 1 when there is none or it makes no
/// sense.
Orientation exif_orientation(std::span<const std::byte> tiff);

}  // namespace dlpipe::data
