// Arrays of one call, allocated from memory that stays with the thread. Internal to augment.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dlpipe::augment {

/// Divides one block of memory into arrays. With a null block it only adds up the required size.
class Layout {
 public:
  static constexpr size_t kAlignment = 64;

  explicit Layout(std::byte* block) : block_(block) {
    if (block != nullptr) used_ = (0 - reinterpret_cast<uintptr_t>(block)) % kAlignment;
  }
  template <class T>
  T* take(size_t count) {
    T* array = block_ == nullptr ? nullptr : reinterpret_cast<T*>(block_ + used_);
    used_ += (count * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment;
    return array;
  }
  size_t needed() const { return used_ + kAlignment; }

 private:
  std::byte* block_;
  size_t used_ = 0;
};

}  // namespace dlpipe::augment
