// Images that stay outside of their dataset: `dlpipe ingest --store link` leaves them in their files or tar archives. The
// dataset's record has a link in place of the image's bytes (FORMAT.md, Links). This file defines the link, the checksums that
// are computed when a record is first read (FORMAT.md, Late checksums), and LinkedRecords, which assembles records.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dlpipe/dataset.h"
#include "dlpipe/error.h"
#include "io/data/record.h"

namespace dlpipe::data {

std::vector<std::byte> encode_link(const Link& link);
/// kCorrupt if it is not a link.
Result<Link> parse_link(std::span<const std::byte> bytes);

/// Write or read all of `bytes` at an offset of an open file; pwrite(2) and pread(2) may transfer less. Any thread. Errors
/// begin with `[area]` and name the file.
Status write_bytes_at(std::string_view area, int fd, std::span<const std::byte> bytes, uint64_t at,
                      const std::string& path);
/// kCorrupt if the file ends before that.
Status read_bytes_at(std::string_view area, int fd, std::span<std::byte> bytes, uint64_t at,
                     const std::string& path);

/// DIR/late.sums, which every program that reads the dataset's records fills in.
///
/// Any thread and any number of processes: a checksum is eight bytes of the file, read and written by one call each. If the
/// file is missing or read-only, new checksums are not stored; nothing else changes.
class LateChecksums {
 public:
  /// A new file: no checksum is known yet.
  static Status create(const std::string& directory, int64_t samples);
  /// kCorrupt if the file has another number of samples.
  static Result<std::unique_ptr<const LateChecksums>> open(const std::string& directory, int64_t samples);
  ~LateChecksums();

  /// The checksum of a whole record; 0 if it was never read.
  Result<uint64_t> of(int64_t sample) const;
  /// Stores the checksum of a record that was read. Returns the valid one, because another thread or process may have been
  /// first.
  Result<uint64_t> note(int64_t sample, uint64_t checksum) const;
  /// How many are known.
  Result<int64_t> known() const;

 private:
  LateChecksums(std::string path, int fd, bool writes, int64_t samples)
      : path_(std::move(path)), fd_(fd), writes_(writes), samples_(samples) {}

  const std::string path_;
  const int fd_;  // -1: there is no file
  const bool writes_;
  const int64_t samples_;
};

/// What a cached record was made from: inode, size and times of the file, and the bytes that the dataset stores for the sample.
struct RecordStamp {
  uint64_t value = 0;
  int64_t age_ns = 0;  // since the file was written or its times were set
};

/// Assembles records: what the dataset stores, with the image's bytes in place of the link.
///
/// With late checksums, a record that is read for the first time is compared with what is known about it, and its checksum is
/// stored; later reads are compared with that checksum.
///
/// With a cache of coefficient records (coefficient_cache.h), a record's image comes from there, unless the file or what the
/// dataset stores for the sample has changed since. Only this class reads from the cache.
///
/// A LinkedRecords belongs to one thread. It opens the file for each record and closes it again.
class LinkedRecords {
 public:
  /// `layout`, `late` (null if checksums are not late) and `cache` (null if there is none) must outlive this object.
  LinkedRecords(const RecordLayout& layout, std::string root, const LateChecksums* late,
                CoefficientCache* cache = nullptr)
      : layout_(layout), root_(std::move(root)), late_(late), cache_(cache) {}

  /// The whole record, valid until the next call; from the cache, its image is a coefficient record. Data from the file is
  /// compared with size and checksum of `header` at each call, because the file may change at any time. kCorrupt names a file
  /// that is missing or has changed; kIo if the disk can't be read.
  Result<std::span<const std::byte>> record(std::span<const std::byte> stored, const RecordHeader& header,
                                            int64_t sample);
  /// Reads the image's bytes into the page cache. Fails only if the disk can't be read; record() reports everything else.
  Status load(std::span<const std::byte> stored, int64_t sample);
  /// How many records came from the cache.
  int64_t from_cache() const { return from_cache_; }
  /// The stamp of the file as it is now.
  Result<RecordStamp> stamp(std::span<const std::byte> stored) const;
  /// The path of the file that contains the image.
  Result<std::string> file(std::span<const std::byte> stored) const;

 private:
  Result<Link> link_of(std::span<const std::byte> stored) const;
  /// Reads the image's bytes into image_.
  Status read(const Link& link);
  /// Reads the image's coefficient record into image_; false if the cache has no valid one.
  bool read_cached(std::span<const std::byte> stored, int64_t sample);
  /// Assembles record_ from the stored fields and image_.
  Status build(std::span<const std::byte> stored);
  /// Compares record_ with what is known about it.
  Status check(const Link& link, const RecordHeader& header, int64_t sample) const;
  Status check_late(const Link& link, const RecordHeader& header, int64_t sample) const;

  const RecordLayout& layout_;
  const std::string root_;
  const LateChecksums* const late_;
  CoefficientCache* const cache_;
  int64_t from_cache_ = 0;
  int64_t modified_ns_ = 0;  // of the file that image_ was read from
  std::vector<std::byte> image_;
  std::vector<std::byte> record_;
};

}  // namespace dlpipe::data
