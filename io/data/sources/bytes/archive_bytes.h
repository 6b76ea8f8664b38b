// An archive's bytes, to be read at any place: of the file itself, here or at an address whose server gives parts of it, or of
// what a packed one (.gz, .zst) or a stream ("-") unpacks to in a scratch file. read() may be called from any number of threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dlpipe/base/error.h"
#include "dlpipe/base/regular_file.h"
#include "dlpipe/io/data/sources/bytes/remote_file.h"
#include "dlpipe/io/data/sources/bytes/scratch_file.h"
#include "dlpipe/io/data/sources/bytes/unpack.h"
#include "dlpipe/io/data/sources/source.h"

namespace dlpipe::data {

class ArchiveBytes {
 public:
  /// `path` "-" is the standard input, of which one may be open. Unpacks where that is needed; kCancelled where the
  /// options' stop_requested says so.
  static Result<ArchiveBytes> open(const std::string& path, const SourceOptions& options,
                                   IsZlib is_zlib = nullptr);

  /// The file as it is, whatever it holds.
  static Result<ArchiveBytes> open_unpacked(const std::string& path);
  /// A piece of it, which lies in it.
  ArchiveBytes part(uint64_t begin, uint64_t size) const;
  /// What was made of it in a scratch file.
  ArchiveBytes rewritten(std::shared_ptr<ScratchFile> scratch, uint64_t begin) const;

  uint64_t size_bytes() const { return size_; }
  /// At rest, which are fewer where it is packed; of a stream and of an address what it is unpacked to.
  uint64_t input_bytes() const { return stamp_.size_bytes > 0 ? stamp_.size_bytes : size_; }
  int64_t modified_ns() const { return stamp_.modified_ns; }  // 0 of a stream
  /// Fills `to`; kChanged where the file is another one than when it was opened. A range past the end is kCorrupt.
  Status read(uint64_t at, std::span<std::byte> to) const;
  Result<std::vector<std::byte>> read(uint64_t at, uint64_t size) const;
  /// Where in the file itself that is; kMisuse where it is in a scratch file.
  Result<Link> where(uint64_t at, uint64_t size) const;

  /// What a Scan was asked to keep isn't wanted any more.
  void drop_kept() const;

  /// Many small reads in order, without opening the file for each. Belongs to one thread.
  class Scan {
   public:
    /// Fewer than `to` holds only at the end.
    Result<size_t> read(uint64_t at, std::span<std::byte> to);
    /// Of an archive at an address: has these bytes in memory from now on, for who will ask for them out of order. Else
    /// nothing.
    Status keep(uint64_t at, uint64_t size);

   private:
    friend class ArchiveBytes;
    explicit Scan(const ArchiveBytes& archive) : archive_(archive) {}
    const ArchiveBytes& archive_;
    std::vector<RegularFile> file_;  // none or one
    std::vector<std::byte> buffer_;
    uint64_t begin_ = 0;  // of what is in the buffer
    size_t filled_ = 0;
  };
  Scan scan() const { return Scan(*this); }

 private:
  std::string path_;
  FileStamp stamp_;
  uint64_t size_ = 0;
  Status open_remote(const SourceOptions& options, IsZlib is_zlib);

  std::shared_ptr<ScratchFile> scratch_;  // null: the file itself
  std::shared_ptr<RemoteFile> remote_;    // the file itself, at an address
  uint64_t begin_ = 0;                    // in the scratch file or the file itself
};

}  // namespace dlpipe::data
