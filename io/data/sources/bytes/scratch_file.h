// An unnamed file with the unpacked contents of a stream or a compressed archive, so that they can be read at any offset. It
// disappears with this object or when the process is killed.
//
// append() belongs to one thread; read() may be called from any number of threads, also during append().
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "dlpipe/error.h"

namespace dlpipe::data {

class ScratchFile {
 public:
  /// In `folder`, whose disk provides the space.
  static Result<std::shared_ptr<ScratchFile>> make(const std::string& folder);
  ~ScratchFile();
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;

  uint64_t size_bytes() const { return size_; }
  /// kNoSpace names the folder.
  Status append(std::span<const std::byte> bytes);
  /// Fills `to`; kIo if the file has fewer bytes after `at`.
  Status read(uint64_t at, std::span<std::byte> to) const;

 private:
  ScratchFile(int fd, std::string folder) : fd_(fd), folder_(std::move(folder)) {}
  int fd_;
  std::string folder_;
  uint64_t size_ = 0;
};

class RemoteWindows;  // remote.h

/// Where scratch files may be created. The file is created when it is first requested, and all archives share it. One thread.
class ScratchSpace {
 public:
  explicit ScratchSpace(std::string folder);
  Result<std::shared_ptr<ScratchFile>> file();
  /// What archives at addresses share.
  const std::shared_ptr<RemoteWindows>& windows() const { return windows_; }

 private:
  std::string folder_;
  std::shared_ptr<ScratchFile> file_;
  std::shared_ptr<RemoteWindows> windows_;
};

/// Fills `to` with the bytes from `at` on; returns how many there were. System errors name `name`.
Result<size_t> read_at(int fd, uint64_t at, std::span<std::byte> to, const std::string& name);

}  // namespace dlpipe::data
