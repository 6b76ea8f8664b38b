// Files that appear whole or not at all: written aside as PATH.partial, synced, renamed over PATH, and the
// directory synced, so that neither a crash nor a full disk leaves half a file or loses the old one. The only
// place that does so. What takes bytes and keeps no file, a pipe, a device or /dev/stdout, is written straight into.
//
// An AtomicFile owns its descriptor and belongs to one thread; without commit() the aside file is removed and
// PATH stays as it was. Cost: two fsyncs per file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "dlpipe/base/error.h"

namespace dlpipe::formats {

class AtomicFile {
 public:
  /// Opens PATH.partial for writing, replacing a leftover of a killed process; a stream as it is. kMisuse for a folder, which
  /// commit() could not replace.
  static Result<AtomicFile> create(const std::string& path);
  AtomicFile(AtomicFile&& other) noexcept
      : path_(std::move(other.path_)), is_stream_(other.is_stream_), fd_(std::exchange(other.fd_, -1)) {}
  AtomicFile& operator=(AtomicFile&&) = delete;
  ~AtomicFile();

  /// kNoSpace when the disk is full.
  Status append(std::span<const std::byte> bytes);
  Status append(std::string_view text) { return append(std::as_bytes(std::span(text.data(), text.size()))); }
  /// Sync, rename, sync the directory; of a stream, close. Call once.
  Status commit();
  /// Bytes have gone for good when they are appended, and there is no name to appear under.
  bool is_stream() const { return is_stream_; }

 private:
  AtomicFile(std::string path, bool is_stream) : path_(std::move(path)), is_stream_(is_stream) {}
  std::string written() const { return is_stream_ ? path_ : path_ + ".partial"; }

  std::string path_;
  bool is_stream_ = false;
  int fd_ = -1;
};

/// Whether `path` names what is open already or takes bytes without keeping a file: /dev/stdout, /dev/fd/3, a pipe, a device.
bool is_stream(const std::string& path);
/// The whole of `text` as the new content of `path`.
Status write_file(const std::string& path, std::string_view text);
/// The whole file; kUnsupported when it is larger than `max_bytes`.
Result<std::string> read_file(const std::string& path, uint64_t max_bytes = uint64_t{1} << 30);
/// fsync of a directory, so that renames and new names in it last.
Status sync_directory(const std::string& directory);

}  // namespace dlpipe::formats
