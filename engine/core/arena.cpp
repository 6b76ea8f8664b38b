#include "dlpipe/engine/core/arena.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "dlpipe/base/host_memory.h"

namespace dlpipe::engine {

// Blocks of the host from this size on begin on a page (allocate_host).
static constexpr size_t kChunkStep = size_t{2} << 20;

Arena::Arena(Device& device, size_t chunk_bytes) : device_(device), chunk_bytes_(chunk_bytes) {}

Arena::~Arena() {
  for (const Chunk& chunk : chunks_) device_.deallocate(chunk.memory, chunk.bytes);
}

// First fit by address keeps what lives long together at the bottom and the top small.
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
  if (range->second.bytes > bytes) spare_.emplace();  // before anything has changed: there may be no memory
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

// A chunk's pages come into being when they are touched: a large one costs no more than its blocks. Where the
// system doesn't promise that much, what is asked for must do.
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
