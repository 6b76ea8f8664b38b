#include "engine/core/allocator.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <map>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "dlpipe/device.h"
#include "dlpipe/error.h"
#include "engine/core/device_memory.h"

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

// From this size on, host blocks are in an arena, where free blocks can be used for any size.
static constexpr size_t kLarge = size_t{256} << 10;

static size_t large_size(size_t bytes) {
  return std::max((bytes + kRedZone + Arena::kGrain - 1) / Arena::kGrain * Arena::kGrain, kLarge);
}

// Free blocks by their size.
class FreeBlocks {
 public:
  using Blocks = std::multimap<size_t, void*>;
  using Node = Blocks::node_type;

  /// The last added block of `smallest` to `largest` bytes; empty: there is none.
  Node take(size_t smallest, size_t largest) {
    const auto first = by_size_.lower_bound(smallest);
    if (first == by_size_.end() || first->first > largest) return {};
    bytes_ -= first->first;
    return by_size_.extract(std::prev(by_size_.upper_bound(first->first)));
  }
  void put(Node block) noexcept {
    bytes_ += block.key();
    by_size_.insert(std::move(block));
  }
  void put_all(FreeBlocks&& others) noexcept {
    by_size_.merge(others.by_size_);
    bytes_ += std::exchange(others.bytes_, 0);
  }
  size_t bytes() const { return bytes_; }
  /// Returns them to the device; returns the number of bytes.
  size_t release(Device& device) {
    for (const auto& [size, block] : by_size_) {
      if (device.is_host()) DLPIPE_UNPOISON(block, size);
      device.deallocate(block, size);
    }
    by_size_.clear();
    return std::exchange(bytes_, 0);
  }

 private:
  Blocks by_size_;
  size_t bytes_ = 0;
};

// Blocks that are reused in the order of one thread's stream.
struct BlocksOfStream {
  Stream* stream = nullptr;
  bool captures = false;
  FreeBlocks free;
};

// Holds the lock and the free lists of one device; the only class that touches them.
class BlockCache {
 public:
  /// `owner` counts this cache's device memory as used; null for a device's own cache.
  explicit BlockCache(Device& device, BlockCache* owner = nullptr)
      : device_(device), owner_(owner), arena_(device) {}
  ~BlockCache() {
    const MutexLock lock(mutex_);
    try {
      release_locked();
    } catch (const Error&) {  // the device has failed, as the next call reports; the blocks are not in use
      release(free_);
    }
  }
  BlockCache(const BlockCache&) = delete;
  BlockCache& operator=(const BlockCache&) = delete;

  Block allocate(size_t bytes) {
    const StreamOrder own = has_orders() ? own_order(device_, IfNone::kMake) : StreamOrder{};
    Block block;
    block.order = own.number;
    const MutexLock lock(mutex_);
    ++statistics_.requests;
    const size_t wanted = rounded_size(bytes);
    if (is_large(wanted)) {
      block.data = allocate_large(bytes, &block.bytes);
      return block;
    }
    FreeBlocks::Node node = take(own, wanted);
    if (node.empty()) {
      FreeBlocks::Blocks fresh;
      node = fresh.extract(fresh.emplace(wanted, nullptr));
      node.mapped() = allocate_new(wanted);
    }
    block.data = node.mapped();
    block.bytes = node.key();
    spare_.insert(std::move(node));
    hand_out(block.data, bytes, block.bytes);
    return block;
  }

  // Never allocates: each block in use has left its map node here.
  void deallocate(const Block& block) noexcept {
    const StreamOrder own = has_orders() ? own_order(device_, IfNone::kLeave) : StreamOrder{};
    const uint64_t order = order_after(own, block);
    const MutexLock lock(mutex_);
    statistics_.used_bytes -= block.bytes;
    if (device_.is_host()) DLPIPE_POISON(block.data, block.bytes);
    if (is_large(block.bytes)) return arena_.deallocate(block.data, block.bytes);
    statistics_.cached_bytes += block.bytes;
    const auto found = of_stream_.find(order);
    FreeBlocks& free = found != of_stream_.end() ? found->second.free : blocks_after(own);
    FreeBlocks::Node node = spare_.extract(spare_.begin());
    node.key() = block.bytes;
    node.mapped() = block.data;
    free.put(std::move(node));
  }

  void end_order(uint64_t number) {
    const MutexLock lock(mutex_);
    auto ended = of_stream_.extract(number);
    if (!ended.empty()) free_.put_all(std::move(ended.mapped().free));
  }
  void set_captures(const StreamOrder& own, bool captures) {
    if (own.number == 0) return;
    const MutexLock lock(mutex_);
    blocks_of(own);
    of_stream_.at(own.number).captures = captures;
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
  // Not needed on the host, where work is complete at once, and in a pool, which belongs to one thread.
  bool has_orders() const { return !device_.is_host() && owner_ == nullptr; }
  // The stream order in which a block freed by the calling thread is reused. If the block is another thread's, that thread's
  // stream doesn't wait for this thread's kernels, which may still use it. So waits for them, except in a capture, which can't.
  uint64_t order_after(const StreamOrder& own, const Block& block) {
    if (own.number == 0 || own.number == block.order) return block.order;
    {
      const MutexLock lock(mutex_);
      if (!of_stream_.contains(block.order)) return own.number;
    }
    if (is_capturing()) return own.number;
    (void)device_.synchronize(*own.stream);  // a failed stream no longer runs anything
    return block.order;
  }
  FreeBlocks& blocks_of(const StreamOrder& own) DLPIPE_REQUIRES(mutex_) {
    if (own.number == 0) return free_;
    BlocksOfStream& blocks = of_stream_[own.number];
    blocks.stream = own.stream;
    return blocks.free;
  }
  // The same, but never throws. Without memory for the list, waits for the thread's kernels instead.
  FreeBlocks& blocks_after(const StreamOrder& own) noexcept DLPIPE_REQUIRES(mutex_) {
    try {
      return blocks_of(own);
    } catch (const std::bad_alloc&) {
      (void)device_.synchronize(*own.stream);  // a failed stream no longer runs anything
      return free_;
    }
  }
  FreeBlocks::Node take(const StreamOrder& own, size_t wanted) DLPIPE_REQUIRES(mutex_) {
    // A block up to a quarter larger also fits, so that the last, smaller batch of an epoch needs no new memory.
    // Not in a pool, where the same step must find the same blocks again.
    const size_t largest = owner_ == nullptr ? wanted + wanted / 4 : wanted;
    FreeBlocks::Node node = blocks_of(own).take(wanted, largest);
    if (node.empty() && own.number != 0) node = free_.take(wanted, largest);
    if (!node.empty()) statistics_.cached_bytes -= node.key();
    return node;
  }
  void* allocate_new(size_t wanted) DLPIPE_REQUIRES(mutex_) {
    ++statistics_.device_allocations;
    Result<void*> block = device_.allocate(wanted);
    if (!block.ok() && release_locked() + (owner_ != nullptr ? owner_->release() : 0) > 0)
      block = device_.allocate(wanted);
    throw_if_error(block.status());
    if (owner_ != nullptr) owner_->count_used(static_cast<int64_t>(wanted));
    return *block;
  }
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
    size_t released = arena_.release();
    if (statistics_.cached_bytes > 0 && !device_.is_host()) refuse_capture("a call waits for the device");
    for (auto& [number, blocks] : of_stream_) {
      if (blocks.captures || blocks.free.bytes() == 0) continue;
      throw_if_error(device_.synchronize(*blocks.stream));  // queued kernels may still use them
      released += release(blocks.free);
    }
    if (owner_ != nullptr && free_.bytes() > 0) synchronize(device_);
    released += release(free_);
    if (owner_ != nullptr) owner_->count_used(-static_cast<int64_t>(released));
    return released;
  }
  size_t release(FreeBlocks& blocks) DLPIPE_REQUIRES(mutex_) {
    const size_t released = blocks.release(device_);
    statistics_.cached_bytes -= released;
    return released;
  }

  Device& device_;
  BlockCache* const owner_;
  Mutex mutex_;
  // By stream number, for threads that haven't ended.
  std::map<uint64_t, BlocksOfStream> of_stream_ DLPIPE_GUARDED_BY(mutex_);
  FreeBlocks free_ DLPIPE_GUARDED_BY(mutex_);           // not used by kernels, or the pool's
  FreeBlocks::Blocks spare_ DLPIPE_GUARDED_BY(mutex_);  // nodes of the small blocks that are in use
  Arena arena_ DLPIPE_GUARDED_BY(mutex_);               // empty but on the host
  AllocatorStatistics statistics_ DLPIPE_GUARDED_BY(mutex_);
};

// The caches of all devices except the CPU.
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
  if (const auto known = caches->of_device.find(&device); known != caches->of_device.end())
    return *known->second;
  return *caches->of_device.emplace(&device, std::make_unique<BlockCache>(device)).first->second;
}

// The pool that this thread's tensors on its device come from.
static thread_local const std::shared_ptr<BlockCache>* t_pool = nullptr;

Block allocate_block(Device& device, size_t bytes) {
  if (t_pool == nullptr || &(*t_pool)->device() != &device) return cache_of(device).allocate(bytes);
  Block block = (*t_pool)->allocate(bytes);
  block.pool = *t_pool;
  return block;
}
void deallocate_block(Device& device, Block& block) noexcept {
  BlockCache& cache = block.pool != nullptr ? *block.pool : cache_of(device);
  cache.deallocate(block);
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

void end_order(Device& device, uint64_t number) noexcept {
  cache_of(device).end_order(number);
}
KeepOrder::KeepOrder(Device& device) : device_(device) {
  cache_of(device_).set_captures(own_order(device_, IfNone::kMake), true);
}
KeepOrder::~KeepOrder() {
  cache_of(device_).set_captures(own_order(device_, IfNone::kMake), false);
}

// Blocks of the host from this size on begin on a page (allocate_host).
static constexpr size_t kChunkStep = size_t{2} << 20;

Arena::Arena(Device& device, size_t chunk_bytes) : device_(device), chunk_bytes_(chunk_bytes) {}

Arena::~Arena() {
  for (const Chunk& chunk : chunks_) device_.deallocate(chunk.memory, chunk.bytes);
}

// First fit by address: it keeps long-lived blocks together at the bottom, so that the chunk's used part stays small.
Result<void*> Arena::allocate(size_t bytes) {
  for (Chunk& chunk : chunks_) {
    for (auto range = chunk.free.begin(); range != chunk.free.end(); ++range) {
      if (range->second.bytes >= bytes) return take(chunk, range, bytes);
    }
  }
  const Result<Chunk*> chunk = add_chunk(bytes);
  if (!chunk.ok()) return chunk.status();
  return take(**chunk, (*chunk)->free.begin(), bytes);
}

void* Arena::take(Chunk& chunk, std::map<size_t, Range>::iterator range, size_t bytes) {
  if (range->second.bytes > bytes) spare_.emplace();  // before any change, because it may run out of memory
  auto node = chunk.free.extract(range);
  const size_t offset = node.key();
  Range& rest = node.mapped();
  const size_t resident = std::min(rest.resident, bytes);
  resident_bytes_ -= resident;
  rest.bytes -= bytes;
  rest.resident -= resident;
  if (rest.bytes > 0) {
    node.key() = offset + bytes;
    chunk.free.insert(std::move(node));
  } else {
    spare_.insert(std::move(node));
  }
  return chunk.memory + offset;
}

// A chunk's pages are only allocated when they are touched, so that a large one costs no more than its blocks. If the
// system refuses that much, allocate the requested size.
Result<Arena::Chunk*> Arena::add_chunk(size_t bytes) {
  chunks_.reserve(chunks_.size() + 1);
  const size_t least = (bytes + kChunkStep - 1) / kChunkStep * kChunkStep;
  size_t chunk_bytes = std::max(least, chunk_bytes_);
  Chunk chunk = {nullptr, 0, {}};
  const auto all = chunk.free.emplace(0, Range{}).first;
  Result<void*> memory = device_.allocate(chunk_bytes);
  if (!memory.ok() && chunk_bytes > least) {
    chunk_bytes = least;
    memory = device_.allocate(chunk_bytes);
  }
  if (!memory.ok()) return memory.status();
  chunk.memory = static_cast<std::byte*>(*memory);
  chunk.bytes = chunk_bytes;
  all->second.bytes = chunk_bytes;
  chunks_.push_back(std::move(chunk));
  return &chunks_.back();
}

void Arena::deallocate(void* block, size_t bytes) noexcept {
  auto* const address = static_cast<std::byte*>(block);
  const auto chunk = std::find_if(chunks_.begin(), chunks_.end(), [&](const Chunk& each) {
    return address >= each.memory && address < each.memory + each.bytes;
  });
  size_t offset = static_cast<size_t>(address - chunk->memory);
  Range range = {bytes, bytes};
  resident_bytes_ += bytes;
  auto next = chunk->free.lower_bound(offset);
  if (next != chunk->free.end() && next->first == offset + bytes) {
    range.bytes += next->second.bytes;
    range.resident += next->second.resident;
    next = chunk->free.erase(next);
  }
  if (next != chunk->free.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second.bytes == offset) {
      offset = before->first;
      range.bytes += before->second.bytes;
      range.resident += before->second.resident;
      chunk->free.erase(before);
    }
  }
  auto node = spare_.extract(spare_.begin());
  node.key() = offset;
  node.mapped() = range;
  chunk->free.insert(std::move(node));
}

size_t Arena::release() {
  const size_t released = resident_bytes_;
  std::erase_if(chunks_, [&](const Chunk& chunk) {
    const bool whole = chunk.free.size() == 1 && chunk.free.begin()->second.bytes == chunk.bytes;
    if (whole) device_.deallocate(chunk.memory, chunk.bytes);
    return whole;
  });
  for (Chunk& chunk : chunks_) {
    for (auto& [offset, range] : chunk.free) {
      if (range.resident > 0) discard_host(chunk.memory + offset, range.bytes);
      range.resident = 0;
    }
  }
  resident_bytes_ = 0;
  return released;
}

}  // namespace dlpipe::engine
