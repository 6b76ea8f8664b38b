#include "dlpipe/io/formats/crc32c.h"

#include <array>

namespace dlpipe::formats {

static constexpr std::array<uint32_t, 256> make_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit)
      crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78u : 0u);  // reflected 0x1EDC6F41
    table[i] = crc;
  }
  return table;
}

uint32_t crc32c(std::span<const std::byte> bytes) {
  static constexpr std::array<uint32_t, 256> kTable = make_table();
  uint32_t crc = 0xffffffffu;
  for (const std::byte byte : bytes) crc = (crc >> 8) ^ kTable[(crc ^ static_cast<uint32_t>(byte)) & 0xffu];
  return ~crc;
}

}  // namespace dlpipe::formats
