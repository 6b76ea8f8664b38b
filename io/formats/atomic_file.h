// Files that appear whole or not at all (base/file.h), and files that are read whole. Where the user chooses the output (-o
// FILE), a pipe, a device or /dev/stdout is written directly.
//
// An AtomicFile belongs to one thread; without commit(), PATH is unchanged. Cost: two fsyncs per file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/file.h"
#include "dlpipe/error.h"

namespace dlpipe::formats {

class AtomicFile {
 public:
  /// kMisuse for a folder, which commit() could not replace. A link is followed. A stream may block until it has a reader, as in a shell.
  static Result<AtomicFile> create(const std::string& path);
  AtomicFile(AtomicFile&& other) noexcept
      : path_(std::move(other.path_)),
        aside_(std::move(other.aside_)),
        stream_(std::exchange(other.stream_, -1)) {}
  AtomicFile& operator=(AtomicFile&&) = delete;
  ~AtomicFile();

  /// kNoSpace when the disk is full.
  Status append(std::span<const std::byte> bytes);
  Status append(std::string_view text) { return append(std::as_bytes(std::span(text.data(), text.size()))); }
  /// Syncs, renames and syncs the directory; closes a stream. Call once.
  Status commit();
  /// A stream: appended bytes are final, and there is no name to rename to.
  bool is_stream() const { return !aside_; }

 private:
  explicit AtomicFile(std::string path) : path_(std::move(path)) {}

  std::string path_;
  std::optional<AsideFile> aside_;
  int stream_ = -1;
};

/// Whether `path` is an open stream or not a regular file: /dev/stdout, /dev/fd/3, a pipe, a device.
bool is_stream(const std::string& path);
/// Writes `text` as the new contents of `path`, one of dlpipe's own files: anything else there, such as a pipe, is replaced.
Status write_file(const std::string& path, std::string_view text);
/// The same for an output that the user chose: streams are written directly.
Status write_output(const std::string& path, std::string_view text);
/// The whole file; kUnsupported if it is larger than `max_bytes`.
Result<std::string> read_file(const std::string& path, uint64_t max_bytes = uint64_t{1} << 30);

}  // namespace dlpipe::formats
