#include "engine/core/constant_cache.h"

#include <atomic>

namespace dlpipe::engine {

size_t ConstantCache::size_bytes() const {
  size_t bytes = 0;
  for (const auto& [key, tensor] : made_) bytes += tensor.size_bytes();
  return bytes;
}

uint64_t next_constant_form() {
  static std::atomic<uint64_t> next{static_cast<uint64_t>(ConstantForm::kFirstFree)};
  return next.fetch_add(1, std::memory_order_relaxed);
}

namespace thread_state {

ConstantCache*& constant_cache() {
  thread_local ConstantCache* t_cache = nullptr;
  return t_cache;
}

}  // namespace thread_state

}  // namespace dlpipe::engine
