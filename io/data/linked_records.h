// Reading the records of a linked dataset (link.h): from what the dataset stores, and the file that the picture lies in.
//
// A LinkedRecords belongs to one thread. It opens the file for each record and closes it again.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dlpipe/base/error.h"
#include "dlpipe/io/data/link.h"
#include "dlpipe/io/data/record.h"

namespace dlpipe::data {

/// Puts records together: what the dataset stores, with the picture's bytes in the link's place.
class LinkedRecords {
 public:
  /// `layout` outlives this object.
  LinkedRecords(const RecordLayout& layout, std::string root) : layout_(layout), root_(std::move(root)) {}

  /// The whole record, here until the next call. Its size and checksum are compared with `header` at every call: the
  /// file may change at any time. kCorrupt names a file that is gone or another one; kIo where the disk can't be read.
  Result<std::span<const std::byte>> record(std::span<const std::byte> stored, const RecordHeader& header);
  /// Has the picture's bytes read into the page cache. An error only where the disk can't be read: what else is wrong is
  /// record()'s to say.
  Status load(std::span<const std::byte> stored);
  /// The file that the picture lies in, as a path.
  Result<std::string> file(std::span<const std::byte> stored) const;

 private:
  Result<Link> link_of(std::span<const std::byte> stored) const;
  Status read(const Link& link);

  const RecordLayout& layout_;
  const std::string root_;
  std::vector<std::byte> picture_;
  std::vector<std::byte> record_;
};

}  // namespace dlpipe::data
