// The account of bad records: which distinct samples were substituted or dropped, the quarantine file, and
// when there are too many.
//
// Belongs to the consumer's thread: batches are booked in the order in which they are lent, so that the
// account is the same whatever the threads.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "dlpipe/base/batch.h"
#include "dlpipe/base/error.h"

namespace dlpipe::pipeline {

class BadRecords {
 public:
  /// `data`: the dataset, for messages.
  BadRecords(int64_t max_bad, std::string quarantine_file, std::string data)
      : max_bad_(max_bad), quarantine_file_(std::move(quarantine_file)), data_(std::move(data)) {}

  /// Books a lent batch's bad samples: one line per sample in the quarantine file. kCorrupt once more than
  /// max_bad distinct samples are bad; kIo and the like when the file can't be written.
  Status book(int64_t epoch, std::span<const Substitution> substitutions);
  /// Refuses a quarantine file that is there and no regular file.
  Status check_file() const;
  /// Distinct samples, ascending: a part of the source's state.
  std::vector<int64_t> samples() const { return {samples_.begin(), samples_.end()}; }
  int64_t count() const { return static_cast<int64_t>(samples_.size()); }
  void restore(std::span<const int64_t> samples) { samples_ = {samples.begin(), samples.end()}; }

 private:
  Status append(int64_t epoch, const Substitution& bad);
  Status read_listed();

  int64_t max_bad_;
  std::string quarantine_file_;
  std::string data_;
  std::set<int64_t> samples_;
  std::set<int64_t> listed_;  // stand in the file already, from this run or the one that it resumes
  bool read_listed_ = false;
};

}  // namespace dlpipe::pipeline
