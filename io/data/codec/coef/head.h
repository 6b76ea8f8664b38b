// The bytes of a JPEG around its entropy-coded data, small: zstd with the tables of ITU-T T.81 annex K, which
// most files carry, as its dictionary. Read by export alone.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "dlpipe/base/error.h"

namespace dlpipe::data::coef {

/// Of what is packed: a source of at most so many bytes has a head that can be read back. As much as ingest reads as one
/// picture: behind a JPEG's end there may be anything (a phone's video, raw sensor data).
inline constexpr size_t kMostHeadBytes = size_t{1} << 30;

/// At most kMostHeadBytes.
std::vector<std::byte> pack_head(std::span<const std::byte> bytes);
/// kCorrupt unless exactly `size` bytes come out.
Result<std::vector<std::byte>> unpack_head(std::span<const std::byte> packed, size_t size);

}  // namespace dlpipe::data::coef
