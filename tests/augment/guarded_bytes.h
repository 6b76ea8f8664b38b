// Memory of which a test sees every access behind its end.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

namespace dlpipe::augment {

/// Memory whose last byte is followed by a page that can't be touched.
class GuardedBytes {
 public:
  explicit GuardedBytes(size_t size) : page_(static_cast<size_t>(sysconf(_SC_PAGESIZE))) {
    pages_ = (size + page_ - 1) / page_ + 1;
    map_ = static_cast<uint8_t*>(
        mmap(nullptr, pages_ * page_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    EXPECT_EQ(mprotect(map_ + (pages_ - 1) * page_, page_, PROT_NONE), 0);
    data = map_ + (pages_ - 1) * page_ - size;
  }
  ~GuardedBytes() { munmap(map_, pages_ * page_); }
  GuardedBytes(const GuardedBytes&) = delete;
  GuardedBytes& operator=(const GuardedBytes&) = delete;

  uint8_t* data = nullptr;

 private:
  size_t page_;
  size_t pages_ = 0;
  uint8_t* map_ = nullptr;
};

}  // namespace dlpipe::augment
