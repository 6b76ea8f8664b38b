// Files that appear whole or not at all, and the lock of a directory being written.
#pragma once

#include <string>
#include <string_view>

#include "dlpipe/base/error.h"

namespace dlpipe::ingest {

/// Writes FILE.new, fsyncs it, renames it to FILE and fsyncs the directory.
Status write_file_durably(const std::string& file, std::string_view text);
Status sync_directory(const std::string& directory);
/// Renames and fsyncs the directory that holds both.
Status rename_durably(const std::string& from, const std::string& to);
/// The directory that holds `path` ("." for a bare name).
std::string parent_of(const std::string& path);

/// An exclusive lock of a directory, held until destruction or the end of the process. Move-only.
class DirectoryLock {
 public:
  /// kMisuse when another process holds it.
  static Result<DirectoryLock> acquire(const std::string& directory);
  DirectoryLock(DirectoryLock&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  DirectoryLock& operator=(DirectoryLock&&) = delete;
  ~DirectoryLock();

 private:
  explicit DirectoryLock(int fd) : fd_(fd) {}
  int fd_;
};

}  // namespace dlpipe::ingest
