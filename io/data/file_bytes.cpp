#include "dlpipe/io/data/file_bytes.h"

#include <unistd.h>

#include <cerrno>

#include "dlpipe/base/text.h"

namespace dlpipe::data {

Status write_bytes_at(std::string_view area, int fd, std::span<const std::byte> bytes, uint64_t at,
                      const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t count = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(at));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return status_from_errno(area, concat("cannot write ", path), errno);
    bytes = bytes.subspan(static_cast<size_t>(count));
    at += static_cast<uint64_t>(count);
  }
  return {};
}

Status read_bytes_at(std::string_view area, int fd, std::span<std::byte> bytes, uint64_t at,
                     const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t count = ::pread(fd, bytes.data(), bytes.size(), static_cast<off_t>(at));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return status_from_errno(area, concat("cannot read ", path), errno);
    if (count == 0) return Status(ErrorCode::kCorrupt, concat("[", area, "] ", path, " became shorter"));
    bytes = bytes.subspan(static_cast<size_t>(count));
    at += static_cast<uint64_t>(count);
  }
  return {};
}

}  // namespace dlpipe::data
