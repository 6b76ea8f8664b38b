// Large blocks of the host's memory, cut from chunks and joined with their neighbours when they are given
// back. Kept by size, freed activations of one layer are no use for gradients of another, and a step of a
// ResNet holds a quarter more than it ever needs at once.
//
// Not thread-safe: its cache (allocator.cpp) has the lock.
#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "dlpipe/base/device/device.h"

namespace dlpipe::engine {

class Arena {
 public:
  /// Sizes are multiples of this, and so are addresses.
  static constexpr size_t kGrain = 4096;

  /// Of memory of `device` that costs nothing before it is touched; the device lives longer.
  explicit Arena(Device& device, size_t chunk_bytes = size_t{1} << 30);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// `bytes` (a multiple of kGrain, more than 0) at the lowest address that has them free, in a new chunk
  /// where none has; the device's error where it has no more.
  Result<void*> allocate(size_t bytes);
  /// Takes no memory: allocate() has made room for what is noted.
  void deallocate(void* block, size_t bytes) noexcept;

  /// Free, but in memory: was in blocks before and hasn't been given back since.
  size_t resident_bytes() const { return resident_bytes_; }
  /// Gives free memory back to the system; answers resident_bytes().
  size_t release();

 private:
  struct Range {
    size_t bytes;
    size_t resident;  // of its bytes, the first
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
  std::multimap<size_t, Range> spare_;  // nodes of maps: as many as there are blocks
  std::vector<Chunk> chunks_;           // in the order of their making: the first ones fill first
  size_t resident_bytes_ = 0;
};

}  // namespace dlpipe::engine
