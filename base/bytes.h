// Bytes of files: integers in a stated byte order, checksums, and base64. Pure functions, any thread.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace dlpipe {

// ---- integers. Any alignment (values inside LMDB pages are only 2-byte aligned). Callers check the length first.

// Files are little-endian, and LMDB's pages have the machine's byte order: one order for both keeps a dataset portable.
static_assert(std::endian::native == std::endian::little, "datasets are read on little-endian machines");

template <class T>
T load_le(std::span<const std::byte> bytes, size_t offset) {
  static_assert(std::is_trivially_copyable_v<T>);
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

template <class T>
void store_le(std::byte* to, T value) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::memcpy(to, &value, sizeof value);
}

template <class T>
void append_le(std::vector<std::byte>& out, T value) {
  out.resize(out.size() + sizeof value);
  store_le(out.data() + out.size() - sizeof value, value);
}

inline uint8_t load_u8(std::span<const std::byte> bytes, size_t offset) {
  return static_cast<uint8_t>(bytes[offset]);
}
inline uint32_t load_be16(std::span<const std::byte> bytes, size_t offset) {
  return (uint32_t{load_u8(bytes, offset)} << 8) | load_u8(bytes, offset + 1);
}
inline uint32_t load_be32(std::span<const std::byte> bytes, size_t offset) {
  return (load_be16(bytes, offset) << 16) | load_be16(bytes, offset + 2);
}

// ---- checksums

/// CRC-32C (Castagnoli; RFC 3720, appendix B.4), the checksum of tfevents, TFRecord and .dlg files. Uses SSE4.2's instruction, or
/// tables for eight bytes at a time.
uint32_t crc32c(std::span<const std::byte> bytes);
/// CRC-32 (PKWARE, APPNOTE 4.4.7), the checksum of zip archives. `before` is the zip_crc32 of what precedes the bytes.
uint32_t zip_crc32(std::span<const std::byte> bytes, uint32_t before = 0);

/// The form that TFRecord stores: rotated right by 15 bits plus a constant. It keeps the checksum of data
/// that itself contains checksums useful (TensorFlow, core/lib/hash/crc32c.h).
inline uint32_t masked_crc32c(std::span<const std::byte> bytes) {
  const uint32_t crc = crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

// ---- base64 (RFC 4648, section 4): bytes as text, for JSON

std::string to_base64(std::string_view bytes);
/// nullopt if `text` isn't what to_base64 writes.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace dlpipe
