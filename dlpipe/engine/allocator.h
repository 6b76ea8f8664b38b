// The engine's memory: blocks of a device, kept and handed out again. A fresh 64 MB block costs page faults
// on every page (tens of milliseconds), a reused one nothing, and a training step asks for the same sizes
// each time.
//
// One cache per device, alive for the whole program. All functions may be called from any thread. Blocks are
// aligned to 64 bytes. Cost of a hit: one lock and one map look-up.
#pragma once

#include <cstddef>
#include <cstdint>

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

/// At least `bytes` of `device`; `block_bytes` receives the block's real size, which deallocate_block wants
/// back. Throws Error kOutOfMemory after the cache was emptied in vain.
void* allocate_block(Device& device, size_t bytes, size_t* block_bytes);
void deallocate_block(Device& device, void* block, size_t block_bytes) noexcept;

AllocatorStatistics allocator_statistics(Device& device = cpu_device());
void reset_peak(Device& device = cpu_device());
/// Gives all free blocks back to the device; answers how many bytes.
size_t release_cached_blocks(Device& device = cpu_device());

}  // namespace dlpipe::engine
