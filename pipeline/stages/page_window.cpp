#include "dlpipe/pipeline/stages/page_window.h"

#include <algorithm>
#include <limits>

namespace dlpipe::pipeline {

void PageWindow::enter(int64_t sequence, std::span<const std::byte> stored) {
  const std::span<const std::byte> map = file_.map();
  if (stored.empty() || stored.data() < map.data()) return;
  const auto offset = static_cast<size_t>(stored.data() - map.data());
  const Entry entry{sequence, offset / kBlockBytes, (offset + stored.size() - 1) / kBlockBytes + 1};
  for (size_t block = entry.first_block; block < entry.end_block; ++block) ++users_[block];
  entries_.push_back(entry);
}

void PageWindow::shrink(int64_t live, int64_t most_bytes) {
  while (!entries_.empty() && held_bytes() > most_bytes && entries_.front().sequence < live) {
    leave(entries_.front());
    entries_.pop_front();
  }
}

void PageWindow::all_over() {
  for (Entry& entry : entries_) entry.sequence = std::numeric_limits<int64_t>::min();
}

void PageWindow::leave(const Entry& entry) {
  const std::span<const std::byte> map = file_.map();
  for (size_t block = entry.first_block; block < entry.end_block; ++block) {
    const auto users = users_.find(block);
    if (--users->second > 0) continue;
    users_.erase(users);
    const size_t begin = block * kBlockBytes;
    file_.evict(map.subspan(begin, std::min(kBlockBytes, map.size() - begin)));
  }
}

}  // namespace dlpipe::pipeline
