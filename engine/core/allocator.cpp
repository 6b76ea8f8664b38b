#include "dlpipe/engine/core/allocator.h"

#include <bit>
#include <map>
#include <memory>
#include <vector>

#include "dlpipe/base/error.h"
#include "dlpipe/base/mutex.h"
#include "dlpipe/engine/core/arena.h"
#include "dlpipe/engine/core/device_memory.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define DLPIPE_POISON(address, bytes) ASAN_POISON_MEMORY_REGION(address, bytes)
#define DLPIPE_UNPOISON(address, bytes) ASAN_UNPOISON_MEMORY_REGION(address, bytes)
static constexpr size_t kRedZone = dlpipe::engine::Arena::kGrain;  // between an arena's blocks
#else
#define DLPIPE_POISON(address, bytes) static_cast<void>(address)
#define DLPIPE_UNPOISON(address, bytes) static_cast<void>(address)
static constexpr size_t kRedZone = 0;
#endif

namespace dlpipe::engine {

// Sizes are rounded up to an eighth of their power of two, so at most 1/8 is lost and near sizes share
// blocks.
static size_t rounded_size(size_t bytes) {
  constexpr size_t kSmallest = 256;
  if (bytes <= kSmallest) return kSmallest;
  const size_t step = std::max<size_t>(std::bit_floor(bytes) / 8, 64);
  return (bytes + step - 1) / step * step;
}

// From here on blocks of the host are an arena's, whose free blocks serve any size.
static constexpr size_t kLarge = size_t{256} << 10;

static size_t large_size(size_t bytes) {
  return std::max((bytes + kRedZone + Arena::kGrain - 1) / Arena::kGrain * Arena::kGrain, kLarge);
}

// Holds the lock and the free lists of one device; the only class that touches them.
class BlockCache {
 public:
  /// `owner` counts what this one takes from the device as used; null for a device's own cache.
  explicit BlockCache(Device& device, BlockCache* owner = nullptr)
      : device_(device), owner_(owner), arena_(device) {}
  ~BlockCache() {
    const MutexLock lock(mutex_);
    try {
      release_locked();
    } catch (const Error&) {  // the device has failed, which its next caller is told; nobody uses the blocks
      free_blocks();
    }
  }
  BlockCache(const BlockCache&) = delete;
  BlockCache& operator=(const BlockCache&) = delete;

  void* allocate(size_t bytes, size_t* block_bytes) {
    const MutexLock lock(mutex_);
    ++statistics_.requests;
    const size_t wanted = rounded_size(bytes);
    if (is_large(wanted)) return allocate_large(bytes, block_bytes);
    // A block up to a quarter larger serves too: the last, smaller batch of an epoch brings no new memory.
    // Not in a pool, where the same step again must find all it needs.
    const size_t largest = owner_ == nullptr ? wanted + wanted / 4 : wanted;
    auto entry = free_.lower_bound(wanted);
    if (entry != free_.end() && entry->first <= largest) {
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
    if (!block.ok() && release_locked() + (owner_ != nullptr ? owner_->release() : 0) > 0)
      block = device_.allocate(wanted);
    throw_if_error(block.status());
    if (owner_ != nullptr) owner_->count_used(static_cast<int64_t>(wanted));
    *block_bytes = wanted;
    hand_out(*block, bytes, wanted);
    return *block;
  }

  void deallocate(void* block, size_t block_bytes) {
    const MutexLock lock(mutex_);
    statistics_.used_bytes -= block_bytes;
    if (device_.is_host()) DLPIPE_POISON(block, block_bytes);
    if (is_large(block_bytes)) return arena_.deallocate(block, block_bytes);
    statistics_.cached_bytes += block_bytes;
    free_[block_bytes].push_back(block);
  }

  Device& device() const { return device_; }
  AllocatorStatistics statistics() {
    const MutexLock lock(mutex_);
    AllocatorStatistics statistics = statistics_;
    statistics.cached_bytes += arena_.resident_bytes();
    return statistics;
  }
  void reset_peak() {
    const MutexLock lock(mutex_);
    statistics_.peak_used_bytes = statistics_.used_bytes;
  }
  size_t release() {
    const MutexLock lock(mutex_);
    return release_locked();
  }

 private:
  bool is_large(size_t bytes) const { return bytes >= kLarge && device_.is_host(); }
  void* allocate_large(size_t bytes, size_t* block_bytes) DLPIPE_REQUIRES(mutex_) {
    const size_t wanted = large_size(bytes);
    const size_t resident = arena_.resident_bytes();
    Result<void*> block = arena_.allocate(wanted);
    if (!block.ok() && release_locked() > 0) block = arena_.allocate(wanted);
    throw_if_error(block.status());
    if (resident - arena_.resident_bytes() < wanted) ++statistics_.device_allocations;
    *block_bytes = wanted;
    hand_out(*block, bytes, wanted);
    return *block;
  }
  void hand_out(void* block, size_t bytes, size_t block_bytes) DLPIPE_REQUIRES(mutex_) {
    statistics_.used_bytes += block_bytes;
    statistics_.peak_used_bytes = std::max(statistics_.peak_used_bytes, statistics_.used_bytes);
    if (!device_.is_host()) return;
    DLPIPE_UNPOISON(block, block_bytes);
    DLPIPE_POISON(static_cast<std::byte*>(block) + (bytes + 7) / 8 * 8, block_bytes - (bytes + 7) / 8 * 8);
  }
  void count_used(int64_t bytes) {
    const MutexLock lock(mutex_);
    statistics_.used_bytes = static_cast<size_t>(static_cast<int64_t>(statistics_.used_bytes) + bytes);
    statistics_.peak_used_bytes = std::max(statistics_.peak_used_bytes, statistics_.used_bytes);
  }
  size_t release_locked() DLPIPE_REQUIRES(mutex_) {
    const size_t released = statistics_.cached_bytes + arena_.release();
    if (released > 0) synchronize(device_);  // kernels that were asked for may still use the blocks
    if (owner_ != nullptr) owner_->count_used(-static_cast<int64_t>(released));
    free_blocks();
    return released;
  }
  void free_blocks() DLPIPE_REQUIRES(mutex_) {
    for (auto& [size, blocks] : free_) {
      for (void* block : blocks) {
        if (device_.is_host()) DLPIPE_UNPOISON(block, size);
        device_.deallocate(block, size);
      }
    }
    free_.clear();
    statistics_.cached_bytes = 0;
  }

  Device& device_;
  BlockCache* const owner_;
  Mutex mutex_;
  std::map<size_t, std::vector<void*>> free_ DLPIPE_GUARDED_BY(mutex_);
  Arena arena_ DLPIPE_GUARDED_BY(mutex_);  // empty but on the host
  AllocatorStatistics statistics_ DLPIPE_GUARDED_BY(mutex_);
};

// Of all devices but the CPU.
struct BlockCaches {
  Mutex mutex;
  std::map<Device*, std::unique_ptr<BlockCache>> of_device DLPIPE_GUARDED_BY(mutex);
};

static BlockCache& cache_of(Device& device) {
  // Never destroyed: tensors with static lifetime may outlive any order of destruction.
  static auto* const caches = new BlockCaches;
  static BlockCache* const cpu = new BlockCache(cpu_device());
  if (&device == &cpu_device()) return *cpu;
  const MutexLock lock(caches->mutex);
  std::unique_ptr<BlockCache>& cache = caches->of_device[&device];
  if (cache == nullptr) cache = std::make_unique<BlockCache>(device);
  return *cache;
}

// The pool that this thread's tensors on its device come from.
static thread_local const std::shared_ptr<BlockCache>* t_pool = nullptr;

Block allocate_block(Device& device, size_t bytes) {
  Block block;
  if (t_pool != nullptr && &(*t_pool)->device() == &device) block.pool = *t_pool;
  BlockCache& cache = block.pool != nullptr ? *block.pool : cache_of(device);
  block.data = cache.allocate(bytes, &block.bytes);
  return block;
}
void deallocate_block(Device& device, Block& block) noexcept {
  BlockCache& cache = block.pool != nullptr ? *block.pool : cache_of(device);
  cache.deallocate(block.data, block.bytes);
  block.pool.reset();
}

BlockPool::BlockPool(Device& device) : cache_(std::make_shared<BlockCache>(device, &cache_of(device))) {}
BlockPool::Use::Use(const BlockPool& pool) {
  t_pool = &pool.cache_;
}
BlockPool::Use::~Use() {
  t_pool = nullptr;
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
