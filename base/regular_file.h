// The one place where a file that is read as data, or grows in place, is opened: only a regular file (links are followed). A
// pipe, socket or device is refused by its kind before it is opened, since opening a pipe waits for its other end.
// Any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "dlpipe/base/error.h"

struct stat;

namespace dlpipe {

/// Size and time of a file; equal stamps count as the same contents.
struct FileStamp {
  uint64_t size_bytes = 0;
  int64_t modified_ns = 0;
  friend bool operator==(const FileStamp&, const FileStamp&) = default;
};

FileStamp stamp_of(const struct stat& stat);

/// A file that is open. Closed with this object.
class RegularFile {
 public:
  /// Errors begin with `[area]` and name the path: kUnsupported for anything but a regular file and for a path with a zero byte,
  /// else as the system says.
  static Result<RegularFile> open(std::string_view area, const std::string& path);
  /// Made where there is none. `how`: O_RDWR, or O_WRONLY, with O_APPEND, O_TRUNC or O_EXCL. What appears whole or not at all is
  /// written by aside_file.h instead. A link is refused (kUnsupported).
  static Result<RegularFile> open_to_write(std::string_view area, const std::string& path, int how);
  ~RegularFile();
  RegularFile(RegularFile&& other) noexcept : fd_(std::exchange(other.fd_, -1)), stamp_(other.stamp_) {}
  RegularFile& operator=(RegularFile&& other) noexcept {
    std::swap(fd_, other.fd_);
    stamp_ = other.stamp_;
    return *this;
  }

  int fd() const { return fd_; }
  /// The file's number, which the caller closes from now on.
  int release() { return std::exchange(fd_, -1); }
  /// As it was when the file was opened.
  const FileStamp& stamp() const { return stamp_; }
  /// False when the file was written to since then.
  bool is_unchanged() const;

 private:
  RegularFile(int fd, const FileStamp& stamp) : fd_(fd), stamp_(stamp) {}
  static Result<RegularFile> open_as(std::string_view area, const std::string& path, int how);
  int fd_;
  FileStamp stamp_;
};

/// The stamp alone, without opening the file; errors as RegularFile::open.
Result<FileStamp> stamp_regular_file(std::string_view area, const std::string& path);

}  // namespace dlpipe
