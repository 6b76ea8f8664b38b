// Headers of images, parsed without a codec: sizes, components and EXIF orientation. Bytes may hold anything;
// every offset is checked. Pure functions.
#pragma once

#include <cstddef>
#include <span>

#include "dlpipe/base/error.h"
#include "dlpipe/io/data/codec/image_codec.h"

namespace dlpipe::data {

/// The layout that the first bytes announce; kNone for anything else.
ImageLayout sniff_layout(std::span<const std::byte> bytes);
Result<ImageInfo> probe_jpeg(std::span<const std::byte> bytes);
Result<ImageInfo> probe_png(std::span<const std::byte> bytes);
/// Orientation in a TIFF block (EXIF: CIPA DC-008, tag 0x0112 of IFD 0); 1 when there is none or it makes no
/// sense.
Orientation exif_orientation(std::span<const std::byte> tiff);

}  // namespace dlpipe::data
