// The checksum of a file's bytes, taken piece by piece: a file of any size costs one small buffer.
#pragma once

#include <cstdint>
#include <string>

#include "dlpipe/base/error.h"

namespace dlpipe::data {

struct FileChecksum {
  uint64_t size_bytes = 0;
  uint64_t checksum = 0;  // equal to checksum64 (dataset.h) of all bytes
};
/// Reads `file` to its end. Errors of the system name it.
Result<FileChecksum> checksum_file(const std::string& file);

}  // namespace dlpipe::data
