// An archive's bytes, readable at any offset: of the file itself, local or at an address whose server supports ranges, or of
// the scratch file to which a compressed archive (.gz, .zst) or a stream ("-") is unpacked. read() may be called from any
// number of threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "dlpipe/error.h"
#include "dlpipe/source.h"
#include "io/data/sources/bytes/remote.h"
#include "io/data/sources/bytes/scratch_file.h"
#include "io/data/sources/bytes/unpack.h"

namespace dlpipe::data {

class ArchiveBytes {
 public:
  /// `path` "-" is standard input, which may be open only once. Unpacks if needed; kCancelled if the options' stop_requested
  /// says so.
  static Result<ArchiveBytes> open(const std::string& path, const SourceOptions& options,
                                   IsZlib is_zlib = nullptr);

  /// The file's bytes, unchanged.
  static Result<ArchiveBytes> open_unpacked(const std::string& path);
  /// A range inside of it.
  ArchiveBytes part(uint64_t begin, uint64_t size) const;
  /// Bytes that were written to a scratch file.
  ArchiveBytes rewritten(std::shared_ptr<ScratchFile> scratch, uint64_t begin) const;

  const std::string& path() const { return path_; }  // for messages
  uint64_t size_bytes() const { return size_; }
  /// The size of the input, which is smaller if it is compressed.
  uint64_t input_bytes() const { return input_bytes_; }
  int64_t modified_ns() const { return stamp_.modified_ns; }  // 0 for a stream
  /// Fills `to`; kChanged if the file has changed since it was opened. A range past the end is kCorrupt.
  Status read(uint64_t at, std::span<std::byte> to) const;
  /// kUnsupported for more than kMostImageBytes, and in a compressed archive for more than ReadBudget::most() of its own size.
  Result<std::vector<std::byte>> read(uint64_t at, uint64_t size) const;
  /// The same for an encoded image. A large range that does not begin like an image is probe_image()'s error, without reading
  /// the rest.
  Result<std::vector<std::byte>> read_image(uint64_t at, uint64_t size) const;
  /// Its offset in the file itself; kMisuse if it is in a scratch file.
  Result<Link> where(uint64_t at, uint64_t size) const;

  /// Drops what a Scan was asked to keep.
  void drop_kept() const;

  /// Many small reads in order, without opening the file for each. Belongs to one thread.
  class Scan {
   public:
    /// Fills less than `to` only at the end.
    Result<size_t> read(uint64_t at, std::span<std::byte> to);
    /// For an archive at an address: keeps these bytes in memory from now on, for out-of-order reads. Otherwise does nothing.
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
  uint64_t input_bytes_ = 0;
  Status open_remote(const SourceOptions& options, IsZlib is_zlib);

  std::shared_ptr<ScratchFile> scratch_;  // null: the file itself
  std::shared_ptr<RemoteFile> remote_;    // the file itself, at an address
  uint64_t begin_ = 0;                    // in the scratch file or the file itself
};

}  // namespace dlpipe::data
