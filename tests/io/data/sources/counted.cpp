#include "tests/io/data/sources/counted.h"

#include <malloc.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>

namespace {

std::atomic<uint64_t> held = 0;
std::atomic<uint64_t> most_held = 0;
std::atomic<uint64_t> operations = 0;

void* counted(void* memory) {
  if (memory == nullptr) return nullptr;
  operations.fetch_add(1, std::memory_order_relaxed);
  const uint64_t now =
      held.fetch_add(malloc_usable_size(memory), std::memory_order_relaxed) + malloc_usable_size(memory);
  uint64_t most = most_held.load(std::memory_order_relaxed);
  while (now > most && !most_held.compare_exchange_weak(most, now, std::memory_order_relaxed)) {
  }
  return memory;
}

void forgotten(void* memory) {
  if (memory != nullptr) held.fetch_sub(malloc_usable_size(memory), std::memory_order_relaxed);
}

}  // namespace

// glibc takes a program's own allocator in the place of its one, which these names still reach.
// NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp)
extern "C" {
void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* memory, size_t size);
void* __libc_memalign(size_t alignment, size_t size);
void __libc_free(void* memory);

void* malloc(size_t size) {
  return counted(__libc_malloc(size));
}
void* calloc(size_t count, size_t size) {
  return counted(__libc_calloc(count, size));
}
void* realloc(void* memory, size_t size) {
  forgotten(memory);
  return counted(__libc_realloc(memory, size));
}
void* memalign(size_t alignment, size_t size) {
  return counted(__libc_memalign(alignment, size));
}
void* aligned_alloc(size_t alignment, size_t size) {
  return counted(__libc_memalign(alignment, size));
}
int posix_memalign(void** memory, size_t alignment, size_t size) {
  *memory = counted(__libc_memalign(alignment, size));
  return *memory == nullptr ? ENOMEM : 0;
}
void free(void* memory) {
  forgotten(memory);
  __libc_free(memory);
}

int memcmp(const void* left, const void* right, size_t size) {
  operations.fetch_add(1, std::memory_order_relaxed);
  const auto* a = static_cast<const unsigned char*>(left);
  const auto* b = static_cast<const unsigned char*>(right);
  for (size_t i = 0; i < size; ++i) {
    if (a[i] != b[i]) return a[i] < b[i] ? -1 : 1;
  }
  return 0;
}
}
// NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp)

namespace dlpipe {

Counting::Counting() : held_before_(held), operations_before_(operations) {
  most_held = held_before_;
}

Cost Counting::cost() const {
  const uint64_t most = most_held;
  return {most > held_before_ ? most - held_before_ : 0, operations - operations_before_};
}

}  // namespace dlpipe
