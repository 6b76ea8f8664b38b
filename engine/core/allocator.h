// The engine's memory: blocks of a device, kept and handed out again. A fresh 64 MB block costs page faults
// on every page (tens of milliseconds), a reused one nothing, and a training step asks for the same sizes
// each time.
//
// One cache per device, alive for the whole program. All functions may be called from any thread. Blocks are
// aligned to 64 bytes. Cost of a hit: one lock and two map look-ups.
//
// On other devices than the host, kernels may be queued that use a block when it is freed. So it goes back to the thread that
// it was made for, whose stream's order makes it safe to use again (device_memory.h), and no other thread gets it while that
// one runs. Where another thread frees it, that one waits for its own stream before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "dlpipe/base/device/device.h"

namespace dlpipe::engine {

/// What a device's cache holds now and did so far. Sizes are of whole blocks (rounded up).
struct AllocatorStatistics {
  size_t used_bytes = 0;       // in tensors now
  size_t cached_bytes = 0;     // free, kept for reuse
  size_t peak_used_bytes = 0;  // largest used_bytes since the start or reset_peak
  int64_t requests = 0;
  int64_t device_allocations = 0;  // requests that no cached block could serve
};

class BlockCache;

struct Block {
  void* data = nullptr;
  size_t bytes = 0;                  // its real size
  uint64_t order = 0;                // of the stream that it is used again in; 0: any
  std::shared_ptr<BlockCache> pool;  // null: the device's own cache
};
/// At least `bytes` of `device`. Throws Error kOutOfMemory after the cache was emptied in vain.
Block allocate_block(Device& device, size_t bytes);
void deallocate_block(Device& device, Block& block) noexcept;

/// Blocks kept apart: what a captured graph computes in must be nobody else's between its runs. A tensor made
/// while a Use lives on its thread has its memory from the pool, and gives it back there, whenever. One thread's.
class BlockPool {
 public:
  explicit BlockPool(Device& device);

  class Use {
   public:
    explicit Use(const BlockPool& pool);
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
  };

 private:
  std::shared_ptr<BlockCache> cache_;
};

/// Pools included: all of their memory counts as used.
AllocatorStatistics allocator_statistics(Device& device = cpu_device());
void reset_peak(Device& device = cpu_device());
/// Gives all free blocks back to the device, after waiting for the streams that may use them; those of threads that capture
/// stay. Answers how many bytes.
size_t release_cached_blocks(Device& device = cpu_device());

/// The stream with this number is over: its blocks are anybody's. device_memory.cpp calls it.
void end_order(Device& device, uint64_t number) noexcept;
/// While one lives nobody waits for the calling thread's stream to release its blocks: it captures.
class KeepOrder {
 public:
  explicit KeepOrder(Device& device);
  ~KeepOrder();
  KeepOrder(const KeepOrder&) = delete;
  KeepOrder& operator=(const KeepOrder&) = delete;

 private:
  Device& device_;
};

}  // namespace dlpipe::engine
