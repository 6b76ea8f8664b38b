// Rows of the dense header table: 32 bytes per sample, kRowsPerChunk to an LMDB value (FORMAT.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "dlpipe/base/bytes.h"
#include "dlpipe/io/data/dataset.h"

namespace dlpipe::data {

inline constexpr size_t kRowBytes = 32;
// 511 rows and LMDB's 16-byte page header fill four 4 KB pages but for 16 bytes.
inline constexpr int64_t kRowsPerChunk = 511;

inline void store_row(std::byte* to, const RecordHeader& header) {
  store_le(to, static_cast<uint32_t>(header.width));
  store_le(to + 4, static_cast<uint32_t>(header.height));
  store_le(to + 8, header.size_bytes);
  store_le(to + 12, header.channels);
  store_le(to + 13, header.orientation);
  store_le(to + 14, static_cast<uint8_t>(header.layout));
  store_le(to + 15, uint8_t{0});
  store_le(to + 16, header.label);
  store_le(to + 24, header.checksum);
}

inline RecordHeader load_row(std::span<const std::byte> row) {
  RecordHeader header;
  header.width = load_le<int32_t>(row, 0);
  header.height = load_le<int32_t>(row, 4);
  header.size_bytes = load_le<uint32_t>(row, 8);
  header.channels = load_le<uint8_t>(row, 12);
  header.orientation = load_le<uint8_t>(row, 13);
  header.layout = static_cast<ImageLayout>(load_le<uint8_t>(row, 14));
  header.label = load_le<int64_t>(row, 16);
  header.checksum = load_le<uint64_t>(row, 24);
  return header;
}

}  // namespace dlpipe::data
