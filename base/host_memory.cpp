#include "dlpipe/base/host_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>

namespace dlpipe {

void* allocate_host(size_t bytes) noexcept {
  constexpr size_t kAlignment = 64;  // a cache line, and the widest vector
  constexpr size_t kHugePage = size_t{2} << 20;
  const bool large = bytes >= kHugePage;
  void* memory = nullptr;
  if (posix_memalign(&memory, large ? kHugePage : kAlignment, std::max(bytes, kAlignment)) != 0)
    return nullptr;
  // Only a hint: where the kernel refuses, pages stay small.
  if (large) (void)madvise(memory, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
  return memory;
}

void free_host(void* memory) noexcept {
  std::free(memory);
}

void discard_host(void* memory, size_t bytes) noexcept {
  (void)madvise(memory, bytes, MADV_DONTNEED);
}

}  // namespace dlpipe
