// A file at an address whose server gives parts of it, to be read at any place without a copy on this disk. Reads that follow
// each other are one stream, of which the last bytes stay in memory, because threads read a little out of order; others are
// requests of their own. All bytes are of one content of the file (remote.h), else kChanged.
//
// read() may be called from any number of threads; those that want the same stream wait for each other. Memory: kBehindBytes
// for each of the files that were read last (RemoteWindows), and what keep() was asked for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dlpipe/base/error.h"
#include "dlpipe/base/mutex.h"
#include "dlpipe/io/data/sources/bytes/remote.h"

namespace dlpipe::data {

class RemoteFile;

/// Streams of the files that were read last; those of others are given back. Any thread.
class RemoteWindows {
 public:
  static constexpr size_t kMost = 4;
  void used(const std::shared_ptr<RemoteFile>& file);

 private:
  Mutex mutex_;
  std::vector<std::weak_ptr<RemoteFile>> files_ DLPIPE_GUARDED_BY(mutex_);  // the last one used at the end
};

class RemoteFile : public std::enable_shared_from_this<RemoteFile> {
 public:
  /// `stream` is of the whole file, `begin` what was read of it already, and its server gives parts.
  RemoteFile(std::string address, std::function<bool()> stop_requested, std::unique_ptr<RemoteStream> stream,
             std::vector<std::byte> begin, std::shared_ptr<RemoteWindows> windows);

  uint64_t size_bytes() const { return size_; }
  /// Fills `to`, which lies in the file. Errors as RemoteStream::read.
  Status read(uint64_t at, std::span<std::byte> to);
  /// Reads these bytes and has them in memory from now on: small ones that will be asked for again out of order.
  Status keep(uint64_t at, uint64_t size);
  void drop_kept();
  /// Gives the stream and its bytes back.
  void forget();

  static constexpr uint64_t kBehindBytes = uint64_t{16} << 20;
  /// Bytes that are read for nothing rather than asking anew.
  static constexpr uint64_t kSkipBytes = uint64_t{4} << 20;

 private:
  /// False where they are in no bytes that are here or can be had by going on with the stream.
  Result<bool> read_here(uint64_t at, std::span<std::byte> to) DLPIPE_REQUIRES(mutex_);
  Status pull(uint64_t end) DLPIPE_REQUIRES(mutex_);
  Status read_apart(uint64_t at, std::span<std::byte> to) const;
  uint64_t window_end() const DLPIPE_REQUIRES(mutex_) { return window_begin_ + window_.size(); }

  const std::string address_;
  const std::function<bool()> stop_requested_;
  const std::string validator_;
  const uint64_t size_;
  const std::shared_ptr<RemoteWindows> windows_;
  Mutex mutex_;
  std::unique_ptr<RemoteStream> stream_ DLPIPE_GUARDED_BY(mutex_);  // goes on at window_end(); null: none
  std::vector<std::byte> window_ DLPIPE_GUARDED_BY(mutex_);
  uint64_t window_begin_ DLPIPE_GUARDED_BY(mutex_) = 0;
  uint64_t last_end_ DLPIPE_GUARDED_BY(mutex_) = 0;                            // of what was read last
  std::map<uint64_t, std::vector<std::byte>> kept_ DLPIPE_GUARDED_BY(mutex_);  // by where it begins
};

}  // namespace dlpipe::data
