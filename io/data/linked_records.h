// Reading the records of a linked dataset (link.h): from what the dataset stores, and the file that the picture lies in.
//
// Where checksums are late, a LinkedRecords compares a record that is read for the first time with
// what is known of it, and notes its checksum; at each further reading that is what counts.
//
// A LinkedRecords belongs to one thread. It opens the file for each record and closes it again.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dlpipe/base/error.h"
#include "dlpipe/io/data/late_checksums.h"
#include "dlpipe/io/data/link.h"
#include "dlpipe/io/data/record.h"

namespace dlpipe::data {

/// Puts records together: what the dataset stores, with the picture's bytes in the link's place.
class LinkedRecords {
 public:
  /// `layout` and `late`, null where checksums aren't late, outlive this object.
  LinkedRecords(const RecordLayout& layout, std::string root, const LateChecksums* late)
      : layout_(layout), root_(std::move(root)), late_(late) {}

  /// The whole record, here until the next call. Its size and checksum are compared with `header` at every call: the
  /// file may change at any time. kCorrupt names a file that is gone or another one; kIo where the disk can't be read.
  Result<std::span<const std::byte>> record(std::span<const std::byte> stored, const RecordHeader& header,
                                            int64_t sample);
  /// Has the picture's bytes read into the page cache. An error only where the disk can't be read: what else is wrong is
  /// record()'s to say.
  Status load(std::span<const std::byte> stored);
  /// The file that the picture lies in, as a path.
  Result<std::string> file(std::span<const std::byte> stored) const;

 private:
  Result<Link> link_of(std::span<const std::byte> stored) const;
  /// The picture's bytes into picture_.
  Status read(const Link& link);
  /// Compares record_ with what is known of it.
  Status check(const Link& link, const RecordHeader& header, int64_t sample) const;
  Status check_late(const Link& link, const RecordHeader& header, int64_t sample) const;

  const RecordLayout& layout_;
  const std::string root_;
  const LateChecksums* const late_;
  int64_t modified_ns_ = 0;  // of the file that picture_ was read from
  std::vector<std::byte> picture_;
  std::vector<std::byte> record_;
};

}  // namespace dlpipe::data
