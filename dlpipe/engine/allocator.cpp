#include "dlpipe/engine/allocator.h"

#include <bit>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "dlpipe/base/error.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define DLPIPE_POISON(address, bytes) ASAN_POISON_MEMORY_REGION(address, bytes)
#define DLPIPE_UNPOISON(address, bytes) ASAN_UNPOISON_MEMORY_REGION(address, bytes)
#else
#define DLPIPE_POISON(address, bytes) static_cast<void>(address)
#define DLPIPE_UNPOISON(address, bytes) static_cast<void>(address)
#endif

namespace dlpipe::engine {

namespace {

// Sizes are rounded up to an eighth of their power of two, so at most 1/8 is lost and near sizes share
// blocks.
size_t rounded_size(size_t bytes) {
  constexpr size_t kSmallest = 256;
  if (bytes <= kSmallest) return kSmallest;
  const size_t step = std::max<size_t>(std::bit_floor(bytes) / 8, 64);
  return (bytes + step - 1) / step * step;
}

// Holds the lock and the free lists of one device; the only class that touches them.
class BlockCache {
 public:
  explicit BlockCache(Device& device) : device_(device) {}

  void* allocate(size_t bytes, size_t* block_bytes) {
    const size_t wanted = rounded_size(bytes);
    const std::lock_guard lock(mutex_);
    ++statistics_.requests;
    // A block up to a quarter larger serves too: the last, smaller batch of an epoch brings no new memory.
    auto entry = free_.lower_bound(wanted);
    if (entry != free_.end() && entry->first <= wanted + wanted / 4) {
      void* block = entry->second.back();
      *block_bytes = entry->first;
      entry->second.pop_back();
      if (entry->second.empty()) free_.erase(entry);
      statistics_.cached_bytes -= *block_bytes;
      hand_out(block, bytes, *block_bytes);
      return block;
    }
    ++statistics_.device_allocations;
    Result<void*> block = device_.allocate(wanted);
    if (!block.ok() && release_locked() > 0) block = device_.allocate(wanted);
    throw_if_error(block.status());
    *block_bytes = wanted;
    hand_out(*block, bytes, wanted);
    return *block;
  }

  void deallocate(void* block, size_t block_bytes) {
    const std::lock_guard lock(mutex_);
    statistics_.used_bytes -= block_bytes;
    statistics_.cached_bytes += block_bytes;
    if (device_.kind() == DeviceKind::kCpu) DLPIPE_POISON(block, block_bytes);
    free_[block_bytes].push_back(block);
  }

  AllocatorStatistics statistics() {
    const std::lock_guard lock(mutex_);
    return statistics_;
  }
  void reset_peak() {
    const std::lock_guard lock(mutex_);
    statistics_.peak_used_bytes = statistics_.used_bytes;
  }
  size_t release() {
    const std::lock_guard lock(mutex_);
    return release_locked();
  }

 private:
  void hand_out(void* block, size_t bytes, size_t block_bytes) {
    statistics_.used_bytes += block_bytes;
    statistics_.peak_used_bytes = std::max(statistics_.peak_used_bytes, statistics_.used_bytes);
    if (device_.kind() != DeviceKind::kCpu) return;
    DLPIPE_UNPOISON(block, block_bytes);
    DLPIPE_POISON(static_cast<std::byte*>(block) + (bytes + 7) / 8 * 8, block_bytes - (bytes + 7) / 8 * 8);
  }
  size_t release_locked() {
    const size_t released = statistics_.cached_bytes;
    for (auto& [size, blocks] : free_) {
      for (void* block : blocks) {
        if (device_.kind() == DeviceKind::kCpu) DLPIPE_UNPOISON(block, size);
        device_.deallocate(block, size);
      }
    }
    free_.clear();
    statistics_.cached_bytes = 0;
    return released;
  }

  Device& device_;
  std::mutex mutex_;
  std::map<size_t, std::vector<void*>> free_;
  AllocatorStatistics statistics_;
};

BlockCache& cache_of(Device& device) {
  // Never destroyed: tensors with static lifetime may outlive any order of destruction.
  static std::mutex* const mutex = new std::mutex;
  static auto* const caches = new std::map<Device*, std::unique_ptr<BlockCache>>;
  static BlockCache* const cpu = new BlockCache(cpu_device());
  if (&device == &cpu_device()) return *cpu;
  const std::lock_guard lock(*mutex);
  std::unique_ptr<BlockCache>& cache = (*caches)[&device];
  if (cache == nullptr) cache = std::make_unique<BlockCache>(device);
  return *cache;
}

}  // namespace

void* allocate_block(Device& device, size_t bytes, size_t* block_bytes) {
  return cache_of(device).allocate(bytes, block_bytes);
}
void deallocate_block(Device& device, void* block, size_t block_bytes) noexcept {
  cache_of(device).deallocate(block, block_bytes);
}
AllocatorStatistics allocator_statistics(Device& device) {
  return cache_of(device).statistics();
}
void reset_peak(Device& device) {
  cache_of(device).reset_peak();
}
size_t release_cached_blocks(Device& device) {
  return cache_of(device).release();
}

}  // namespace dlpipe::engine
