// CRC-32C (Castagnoli; RFC 3720, appendix B.4): the checksum of tfevents, TFRecord and .dlg files, by the instruction that SSE4.2
// has for it. CRC-32 (PKWARE, APPNOTE 4.4.7): that of zip archives. Pure functions, by tables for eight bytes at a time where there is no
// instruction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace dlpipe {

uint32_t crc32c(std::span<const std::byte> bytes);
/// `before` is the zip_crc32 of what precedes the bytes.
uint32_t zip_crc32(std::span<const std::byte> bytes, uint32_t before = 0);

/// The form that TFRecord stores: rotated right by 15 bits plus a constant, so that a checksum of data that
/// holds checksums stays useful (TensorFlow, core/lib/hash/crc32c.h).
inline uint32_t masked_crc32c(std::span<const std::byte> bytes) {
  const uint32_t crc = crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

}  // namespace dlpipe
