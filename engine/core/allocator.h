// The engine's caching allocator: freed blocks of a device are kept and reused. A new 64 MB block costs a page
// fault per page (tens of milliseconds), a reused one nothing, and every training step requests the same
// sizes.
//
// There is one cache per device, for the whole program. All functions may be called from any thread. Blocks
// are aligned to 64 bytes. A hit costs one lock and two map look-ups.
//
// On devices other than the host, queued kernels may still use a block when it is freed. So it is returned to the thread that
// it was allocated for: the order of that thread's stream makes it safe to reuse (device_memory.h). No other thread gets it
// while that thread runs. If another thread frees the block, that thread first waits for its own stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "dlpipe/device.h"

namespace dlpipe::engine {

// Large blocks of host memory, cut from chunks and merged with their neighbours when they are freed. If blocks
// were kept by size, one layer's freed activations could not be reused for another layer's gradients, and a
// ResNet's step would use a quarter more memory than its peak.
//
// Not thread-safe: its cache (allocator.cpp) has the lock.

class Arena {
 public:
  /// Sizes are multiples of this, and so are addresses.
  static constexpr size_t kGrain = 4096;

  /// Uses memory of `device` that costs nothing before it is touched. The device must outlive the arena.
  explicit Arena(Device& device, size_t chunk_bytes = size_t{1} << 30);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// `bytes` (a multiple of kGrain, more than 0) at the lowest address where they are free, else in a new
  /// chunk; the device's error if it has no more memory.
  Result<void*> allocate(size_t bytes);
  /// Never allocates: allocate() has reserved the bookkeeping that it needs.
  void deallocate(void* block, size_t bytes) noexcept;

  /// Free memory that is resident: it was used by blocks and has not been returned to the system since.
  size_t resident_bytes() const { return resident_bytes_; }
  /// Returns free memory to the system, and returns what resident_bytes() was.
  size_t release();

 private:
  struct Range {
    size_t bytes;
    size_t resident;  // how many of its first bytes are resident
  };
  struct Chunk {
    std::byte* memory;
    size_t bytes;
    std::map<size_t, Range> free;  // by offset; no two touch
  };
  void* take(Chunk& chunk, std::map<size_t, Range>::iterator range, size_t bytes);
  Result<Chunk*> add_chunk(size_t bytes);

  Device& device_;
  const size_t chunk_bytes_;
  std::multimap<size_t, Range> spare_;  // spare map nodes, one per block
  std::vector<Chunk> chunks_;           // in order of creation: the first ones are filled first
  size_t resident_bytes_ = 0;
};

/// Statistics of a device's cache. Sizes are of whole blocks (rounded up).
struct AllocatorStatistics {
  size_t used_bytes = 0;       // in tensors now
  size_t cached_bytes = 0;     // free, kept for reuse
  size_t peak_used_bytes = 0;  // largest used_bytes since the start or reset_peak
  int64_t requests = 0;
  int64_t device_allocations = 0;  // requests without a fitting cached block
};

class BlockCache;

struct Block {
  void* data = nullptr;
  size_t bytes = 0;                  // its real size
  uint64_t order = 0;                // number of the stream that may reuse it; 0: any
  std::shared_ptr<BlockCache> pool;  // null: the device's own cache
};
/// At least `bytes` of `device`. Throws Error kOutOfMemory if emptying the cache didn't help.
Block allocate_block(Device& device, size_t bytes);
void deallocate_block(Device& device, Block& block) noexcept;

/// Separate blocks for a captured graph, whose memory must not be reused by others between its runs. A tensor created
/// while a Use lives on its thread has memory from the pool, to which it is returned at any time. For one thread.
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

/// Includes pools: all of their memory counts as used.
AllocatorStatistics allocator_statistics(Device& device = cpu_device());
void reset_peak(Device& device = cpu_device());
/// Frees all cached blocks, after waiting for the streams that may use them, except those of threads that capture. Returns the
/// number of bytes.
size_t release_cached_blocks(Device& device = cpu_device());

/// The stream with this number has ended: any thread may use its blocks. Called by device_memory.cpp.
void end_order(Device& device, uint64_t number) noexcept;
/// While an object lives, the calling thread captures: its blocks aren't released, and no thread waits for its stream.
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
