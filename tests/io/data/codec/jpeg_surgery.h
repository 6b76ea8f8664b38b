// JPEGs with parts taken out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "io/data/codec/jpeg.h"

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

/// The first `scans` scans of a file of several, and its end.
inline std::vector<std::byte> with_scans(std::span<const std::byte> jpeg, int scans) {
  const auto is_marker = [&](size_t at) {  // none within a scan: 0 and restarts follow 0xff there
    const auto kind = static_cast<unsigned>(jpeg[at + 1]);
    return jpeg[at] == std::byte{0xff} && kind != 0 && (kind < 0xd0 || kind > 0xd7);
  };
  size_t at = 0;
  for (; scans > 0; --scans) {
    while (!is_marker(at) || jpeg[at + 1] != std::byte{0xda}) ++at;
    do ++at;
    while (!is_marker(at));
  }
  std::vector<std::byte> out(jpeg.begin(), jpeg.begin() + static_cast<ptrdiff_t>(at));
  out.insert(out.end(), {std::byte{0xff}, std::byte{0xd9}});
  return out;
}

}  // namespace dlpipe::data
