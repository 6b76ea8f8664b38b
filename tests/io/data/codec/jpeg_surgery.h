// JPEGs with parts taken out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "dlpipe/io/data/codec/jpeg_segments.h"

namespace dlpipe::data {

inline constexpr uint32_t kHuffmanTables = 0xc4;
inline constexpr uint32_t kQuantisationTables = 0xdb;

/// The same file without its segments of `marker` before the first scan's data.
inline std::vector<std::byte> without_segments(std::span<const std::byte> jpeg, uint32_t marker) {
  std::vector<std::byte> out;
  size_t at = 0;
  JpegSegments segments(jpeg);
  for (JpegSegments::Segment segment; segments.next(&segment);) {
    if (segment.marker != marker) continue;
    out.insert(out.end(), jpeg.begin() + static_cast<ptrdiff_t>(at),
               jpeg.begin() + static_cast<ptrdiff_t>(segment.begin));
    at = segment.end;
  }
  out.insert(out.end(), jpeg.begin() + static_cast<ptrdiff_t>(at), jpeg.end());
  return out;
}

}  // namespace dlpipe::data
