// A picture that lies outside of its dataset: `dlpipe ingest --store link` leaves pictures in the files or tar archives
// that they are in. The dataset's record has a link where the picture's bytes would be (FORMAT.md, Links). Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dlpipe/base/error.h"

namespace dlpipe::data {

/// Where a picture's bytes lie.
struct Link {
  std::string file;  // below the dataset's root of links, or absolute
  uint64_t offset = 0;
  uint64_t size_bytes = 0;
  bool is_whole = false;  // the file is the picture, and nothing else
  /// When the file was written, where that is all that is known of most of the picture's bytes (FORMAT.md, Late checksums).
  std::optional<int64_t> modified_ns = {};
};

std::vector<std::byte> encode_link(const Link& link);
/// kCorrupt where it is none.
Result<Link> parse_link(std::span<const std::byte> bytes);

}  // namespace dlpipe::data
