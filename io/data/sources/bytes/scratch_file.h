// A nameless file that holds what a stream or a compressed archive unpacks to, so that it can be read at any place.
// It is gone with this object, and with a killed process.
//
// append() belongs to one thread; read() may be called from any number of threads, also beside append().
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "dlpipe/base/error.h"

namespace dlpipe::data {

class ScratchFile {
 public:
  /// In `folder`, on whose disk the space is taken.
  static Result<std::shared_ptr<ScratchFile>> make(const std::string& folder);
  ~ScratchFile();
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;

  uint64_t size_bytes() const { return size_; }
  /// kNoSpace names the folder.
  Status append(std::span<const std::byte> bytes);
  /// Fills `to`; kIo where the file has fewer bytes behind `at`.
  Status read(uint64_t at, std::span<std::byte> to) const;

 private:
  ScratchFile(int fd, std::string folder) : fd_(fd), folder_(std::move(folder)) {}
  int fd_;
  std::string folder_;
  uint64_t size_ = 0;
};

class RemoteWindows;  // remote_file.h

/// Where scratch files may be made. The file is made when it is first asked for, and all archives share it. One thread.
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

/// Fills `to` with the bytes behind `at`: how many there were. Errors as the system says, naming `name`.
Result<size_t> read_at(int fd, uint64_t at, std::span<std::byte> to, const std::string& name);

}  // namespace dlpipe::data
