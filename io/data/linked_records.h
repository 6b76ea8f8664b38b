// Reading the records of a linked dataset (link.h): from what the dataset stores, and the file that the picture lies in.
//
// Where checksums are late, a LinkedRecords compares a record that is read for the first time with
// what is known of it, and notes its checksum; at each further reading that is what counts.
//
// With a cache of coefficient records (coefficient_cache.h) a record has its picture from there, where it is there and neither
// the file nor what the dataset stores of the sample changed since: the one place that knows of the cache.
//
// A LinkedRecords belongs to one thread. It opens the file for each record and closes it again.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dlpipe/base/error.h"
#include "dlpipe/io/data/coefficient_cache.h"
#include "dlpipe/io/data/late_checksums.h"
#include "dlpipe/io/data/link.h"
#include "dlpipe/io/data/record.h"

namespace dlpipe::data {

/// What a cached record was made of: number, size and times of the file, and the bytes that the dataset stores of the sample.
struct RecordStamp {
  uint64_t value = 0;
  int64_t age_ns = 0;  // since the file was written or its times were set
};

/// Puts records together: what the dataset stores, with the picture's bytes in the link's place.
class LinkedRecords {
 public:
  /// `layout`, `late`, null where checksums aren't late, and `cache`, null where there is none, outlive this object.
  LinkedRecords(const RecordLayout& layout, std::string root, const LateChecksums* late,
                CoefficientCache* cache = nullptr)
      : layout_(layout), root_(std::move(root)), late_(late), cache_(cache) {}

  /// The whole record, here until the next call; from the cache with the picture as a coefficient record. What is read from
  /// the file is compared with size and checksum of `header` at every call: the file may change at any time. kCorrupt names a
  /// file that is gone or another one; kIo where the disk can't be read.
  Result<std::span<const std::byte>> record(std::span<const std::byte> stored, const RecordHeader& header,
                                            int64_t sample);
  /// Has the picture's bytes read into the page cache. An error only where the disk can't be read: what else is wrong is
  /// record()'s to say.
  Status load(std::span<const std::byte> stored, int64_t sample);
  /// How many records were from the cache.
  int64_t from_cache() const { return from_cache_; }
  /// Of the file as it is now.
  Result<RecordStamp> stamp(std::span<const std::byte> stored) const;
  /// The file that the picture lies in, as a path.
  Result<std::string> file(std::span<const std::byte> stored) const;

 private:
  Result<Link> link_of(std::span<const std::byte> stored) const;
  /// The picture's bytes into picture_.
  Status read(const Link& link);
  /// The picture's coefficient record into picture_; false where the cache has none that counts.
  bool read_cached(std::span<const std::byte> stored, int64_t sample);
  /// record_ of the fields that are stored and picture_.
  Status build(std::span<const std::byte> stored);
  /// Compares record_ with what is known of it.
  Status check(const Link& link, const RecordHeader& header, int64_t sample) const;
  Status check_late(const Link& link, const RecordHeader& header, int64_t sample) const;

  const RecordLayout& layout_;
  const std::string root_;
  const LateChecksums* const late_;
  CoefficientCache* const cache_;
  int64_t from_cache_ = 0;
  int64_t modified_ns_ = 0;  // of the file that picture_ was read from
  std::vector<std::byte> picture_;
  std::vector<std::byte> record_;
};

}  // namespace dlpipe::data
