// Integers out of and into byte strings of a stated order, whatever the machine and the alignment: values
// inside LMDB pages are only 2-byte aligned. Callers check the length first.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

namespace dlpipe {

// Files are little-endian and the pages of LMDB native: one order for both keeps a dataset portable.
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

}  // namespace dlpipe
