// The checksum of bytes that do not lie in one piece: of a file of any size for one small buffer, and of pieces in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "dlpipe/base/error.h"

namespace dlpipe::data {

struct FileChecksum {
  uint64_t size_bytes = 0;
  uint64_t checksum = 0;  // equal to checksum64 (dataset.h) of all bytes
};
/// Reads `file` to its end. Errors of the system name it.
Result<FileChecksum> checksum_file(const std::string& file);

/// checksum64 of pieces that are one behind the other. Throws std::bad_alloc.
uint64_t checksum64_of_pieces(std::span<const std::span<const std::byte>> pieces);

}  // namespace dlpipe::data
