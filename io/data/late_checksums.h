// Checksums that are taken when a record is read for the first time (FORMAT.md, Late checksums): DIR/late.sums, which every
// program that reads the dataset's records fills in.
//
// Any thread, and any number of processes: a checksum is eight bytes of the file, read and written by one call each. Where
// the file is not there or can't be written, what would be noted is not: nothing else is lost.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "dlpipe/base/error.h"

namespace dlpipe::data {

class LateChecksums {
 public:
  /// A new file: no checksum is known yet.
  static Status create(const std::string& directory, int64_t samples);
  /// kCorrupt where the file is of another number of samples.
  static Result<std::unique_ptr<const LateChecksums>> open(const std::string& directory, int64_t samples);
  ~LateChecksums();

  /// Of a whole record; 0 where it was never read.
  Result<uint64_t> of(int64_t sample) const;
  /// Notes that a record was read. Answers the checksum that counts: another thread or process may have been first.
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

}  // namespace dlpipe::data
