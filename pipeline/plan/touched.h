// Which records have been checked since the loader was opened: one bit per sample, so that each record's checksum
// is computed once per run. Any thread, no lock; who finds a bit set sees all that was written before it was.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

namespace dlpipe::pipeline {

class TouchedBits {
 public:
  explicit TouchedBits(int64_t samples) : words_(static_cast<size_t>((samples + 63) / 64)) {}
  bool test(int64_t sample) const {
    return (words_[static_cast<size_t>(sample / 64)].load(std::memory_order_acquire) >> (sample % 64)) & 1;
  }
  void set(int64_t sample) {
    words_[static_cast<size_t>(sample / 64)].fetch_or(uint64_t{1} << (sample % 64),
                                                      std::memory_order_release);
  }

 private:
  std::vector<std::atomic<uint64_t>> words_;
};

}  // namespace dlpipe::pipeline
