// Reads protocol buffers' wire format: tags, numbers and length-delimited pieces. The bytes may be anything and may be in
// memory or in a file. A cursor never leaves its range. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "dlpipe/error.h"

namespace dlpipe::data {

/// Fills the span with the bytes at an offset; returns how many there were.
using ReadAt = std::function<Result<size_t>(uint64_t, std::span<std::byte>)>;

struct WireField {
  uint32_t number = 0;
  bool has_bytes = false;  // otherwise `value` has the number
  uint64_t value = 0;      // of a varint, or 4 or 8 raw bytes
  uint64_t begin = 0;      // of the bytes
  uint64_t size = 0;
};

class WireCursor {
 public:
  WireCursor(const ReadAt& read, uint64_t begin, uint64_t size)
      : read_(read), at_(begin), end_(begin + size) {}

  /// The next field; nullopt at the end. kCorrupt if the field is incomplete.
  Result<std::optional<WireField>> next();
  /// The next number, of packed ones; kCorrupt at the end.
  Result<uint64_t> varint();
  bool at_end() const { return at_ >= end_; }
  /// The bytes of `field`, at most `most`; kCorrupt if there are more.
  Result<std::string> text(const WireField& field, uint64_t most) const;

 private:
  const ReadAt& read_;
  uint64_t at_;
  uint64_t end_;
};

/// A reader of bytes in memory.
ReadAt read_memory(std::span<const std::byte> bytes);

}  // namespace dlpipe::data
