// All of some bytes at a place of an open file: what read(2) and write(2) may do in pieces. Any thread. Errors begin with `[area]`
// and name the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "dlpipe/base/error.h"

namespace dlpipe::data {

Status write_bytes_at(std::string_view area, int fd, std::span<const std::byte> bytes, uint64_t at,
                      const std::string& path);
/// kCorrupt where the file ends before.
Status read_bytes_at(std::string_view area, int fd, std::span<std::byte> bytes, uint64_t at,
                     const std::string& path);

}  // namespace dlpipe::data
