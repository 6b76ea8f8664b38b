#include "tests/base/device/guarded_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>

namespace dlpipe {
namespace {

constexpr size_t kAddresses = size_t{1} << 36;  // of which pages are taken as they are used
constexpr size_t kPage = size_t{2} << 20;  // of the large ones: opening and closing them is one entry each

size_t round_up(size_t bytes, size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

}  // namespace

GuardedMemory::GuardedMemory() {
  if (!kGuards) return;
  mapped_ = mmap(nullptr, kAddresses + kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped_ == MAP_FAILED) std::abort();
  const auto begin = reinterpret_cast<uintptr_t>(mapped_);
  base_ = static_cast<std::byte*>(mapped_) + (round_up(begin, kPage) - begin);
  (void)madvise(base_, kAddresses, MADV_HUGEPAGE);  // without them it is slower
}

GuardedMemory::~GuardedMemory() {
  if (kGuards) munmap(mapped_, kAddresses + kPage);
}

void* GuardedMemory::take(size_t bytes) {
  const size_t size = std::max(kAlign, round_up(bytes, kAlign));
  if (!kGuards) return std::aligned_alloc(kAlign, size);
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find_if(free_, [&](const auto& piece) { return piece.second >= size; });
  size_t at = top_;
  if (found != free_.end()) {
    at = found->first;
    if (found->second > size) free_[at + size] = found->second - size;
    free_.erase(at);
  } else {
    if (size > kAddresses - top_) return nullptr;
    const size_t before = round_up(top_, kPage);
    top_ += size;
    if (openings_ > 0) allow(before, round_up(top_, kPage), true);
  }
  taken_[at] = size;
  return base_ + at;
}

void GuardedMemory::give(void* memory) noexcept {
  if (!kGuards) return std::free(memory);
  const std::lock_guard lock(mutex_);
  const auto taken = taken_.find(static_cast<size_t>(static_cast<std::byte*>(memory) - base_));
  if (taken == taken_.end()) std::abort();
  auto piece = free_.emplace(*taken).first;
  taken_.erase(taken);
  if (const auto after = std::next(piece);
      after != free_.end() && piece->first + piece->second == after->first) {
    piece->second += after->second;
    free_.erase(after);
  }
  if (piece == free_.begin()) return;
  if (const auto before = std::prev(piece); before->first + before->second == piece->first) {
    before->second += piece->second;
    free_.erase(piece);
  }
}

void GuardedMemory::add_openings(int count) {
  if (!kGuards) return;
  const std::lock_guard lock(mutex_);
  const bool was_open = openings_ > 0;
  openings_ += count;
  if (was_open != (openings_ > 0)) allow(0, round_up(top_, kPage), openings_ > 0);
}

void GuardedMemory::allow(size_t from, size_t to, bool access) {
  if (from == to) return;
  if (mprotect(base_ + from, to - from, access ? PROT_READ | PROT_WRITE : PROT_NONE) != 0) std::abort();
}

}  // namespace dlpipe
