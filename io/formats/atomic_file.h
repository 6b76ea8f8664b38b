// Files that appear whole or not at all (base/aside_file.h), and files that are read whole. Where the user says what to write
// (-o FILE), what takes bytes and keeps no file, a pipe, a device or /dev/stdout, is written straight into.
//
// An AtomicFile belongs to one thread; without commit() PATH stays as it was. Cost: two fsyncs per file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "dlpipe/base/aside_file.h"
#include "dlpipe/base/error.h"

namespace dlpipe::formats {

class AtomicFile {
 public:
  /// kMisuse for a folder, which commit() could not replace. A stream may wait for its reader, as it does in a shell.
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
  /// Sync, rename, sync the directory; of a stream, close. Call once.
  Status commit();
  /// Bytes have gone for good when they are appended, and there is no name to appear under.
  bool is_stream() const { return !aside_; }

 private:
  explicit AtomicFile(std::string path) : path_(std::move(path)) {}

  std::string path_;
  std::optional<AsideFile> aside_;
  int stream_ = -1;
};

/// Whether `path` names what is open already or takes bytes without keeping a file: /dev/stdout, /dev/fd/3, a pipe, a device.
bool is_stream(const std::string& path);
/// The whole of `text` as the new content of `path`, a file of dlpipe's own: what stands there otherwise, a pipe, is replaced.
Status write_file(const std::string& path, std::string_view text);
/// The same where the user has said what to write: streams are written into.
Status write_output(const std::string& path, std::string_view text);
/// The whole file; kUnsupported when it is larger than `max_bytes`.
Result<std::string> read_file(const std::string& path, uint64_t max_bytes = uint64_t{1} << 30);

}  // namespace dlpipe::formats
