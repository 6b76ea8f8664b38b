// What of a dataset's file stays in memory where a ceiling is set (LoaderOptions::memory_bytes): the pages of
// batches that are over leave the page cache, the oldest first. A shuffled epoch reads a record once, so
// nothing that leaves would have been used before the next epoch.
//
// Pages are counted by blocks of 64 KB. An object belongs to the prefault thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <unordered_map>

#include "dlpipe/pipeline/stages/mapped_file.h"

namespace dlpipe::pipeline {

class PageWindow {
 public:
  static constexpr size_t kBlockBytes = size_t{1} << 16;

  /// `file` must outlive this.
  explicit PageWindow(const MappedFile& file) : file_(file) {}

  /// `stored` is about to be loaded for batch `sequence`; sequences may come in any order.
  void enter(int64_t sequence, std::span<const std::byte> stored);
  /// Lets batches before `live` go, oldest entries first, until at most `most_bytes` are held; what `live`
  /// and later batches need stays, even if it is more.
  void shrink(int64_t live, int64_t most_bytes);
  /// All entries so far are of batches that are over, whatever sequences come: the stream has gone elsewhere.
  void all_over();
  int64_t held_bytes() const { return static_cast<int64_t>(users_.size() * kBlockBytes); }

 private:
  struct Entry {
    int64_t sequence;
    size_t first_block;
    size_t end_block;
  };
  void leave(const Entry& entry);

  const MappedFile& file_;
  std::deque<Entry> entries_;
  std::unordered_map<size_t, int32_t> users_;  // entries of a block
};

}  // namespace dlpipe::pipeline
