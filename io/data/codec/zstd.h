// One record in one zstd frame. An object belongs to one thread and keeps its context between calls.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "dlpipe/error.h"

namespace dlpipe::data {

/// Whether a frame of `frame_bytes` can contain `size` bytes at all. Check it before allocating their memory.
bool zstd_can_hold(size_t frame_bytes, size_t size);

class ZstdCompressor {
 public:
  ZstdCompressor();
  ~ZstdCompressor();
  /// Replaces `out` with the frame.
  Status compress(std::span<const std::byte> bytes, std::vector<std::byte>& out);

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

class ZstdDecompressor {
 public:
  ZstdDecompressor();
  ~ZstdDecompressor();
  /// Fills `out` exactly; kCorrupt if the frame contains another number of bytes.
  Status decompress(std::span<const std::byte> frame, std::span<std::byte> out);

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

}  // namespace dlpipe::data
