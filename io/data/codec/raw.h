// Raw pixels at rest: a 16-byte header and width x height x channels bytes, rows from the top (FORMAT.md).
// Pure functions.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "dlpipe/base/error.h"
#include "dlpipe/base/image.h"
#include "dlpipe/io/data/codec/image_codec.h"

namespace dlpipe::data {

inline constexpr std::string_view kRawMagic = "DLPRAW1\n";
inline constexpr size_t kRawHeaderBytes = 20;

/// Checks the header against the number of bytes that follow.
Result<ImageInfo> probe_raw(std::span<const std::byte> bytes);
Status decode_raw(std::span<const std::byte> bytes, const Region& region, const ImageView& out);
std::vector<std::byte> encode_raw(const ConstImageView& image);

}  // namespace dlpipe::data
