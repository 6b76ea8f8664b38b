// Checksums of bytes that are not contiguous: of a file of any size through one small buffer, and of pieces in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "dlpipe/error.h"

namespace dlpipe::data {

struct FileChecksum {
  uint64_t size_bytes = 0;
  uint64_t checksum = 0;  // equal to checksum64 (dataset.h) of all bytes
};
/// Reads `file` to its end. System errors name the file.
Result<FileChecksum> checksum_file(const std::string& file);

/// checksum64 of the concatenated pieces. Throws std::bad_alloc.
uint64_t checksum64_of_pieces(std::span<const std::span<const std::byte>> pieces);

}  // namespace dlpipe::data
