#include "tests/base/counted_new.h"

#include <cstddef>
#include <cstdlib>
#include <new>

static thread_local dlpipe::test::NewCount t_count;

static void* counted(std::size_t bytes, std::size_t alignment) {
  ++t_count.calls;
  t_count.bytes += static_cast<int64_t>(bytes);
  const std::size_t whole = (bytes + alignment - 1) / alignment * alignment;
  void* const memory = alignment <= alignof(std::max_align_t) ? std::malloc(bytes > 0 ? bytes : 1)
                                                              : std::aligned_alloc(alignment, whole);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

void* operator new(std::size_t bytes) {
  return counted(bytes, 1);
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return counted(bytes, static_cast<std::size_t>(alignment));
}
// The standard library's temporary buffers take memory by this one, and give it back by the delete below.
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  ++t_count.calls;
  t_count.bytes += static_cast<int64_t>(bytes);
  return std::malloc(bytes > 0 ? bytes : 1);
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}

namespace dlpipe::test {

NewCount new_count() {
  return t_count;
}

}  // namespace dlpipe::test
