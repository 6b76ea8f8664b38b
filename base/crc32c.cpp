#include "dlpipe/base/crc32c.h"

#include <array>
#include <cstring>

namespace dlpipe {

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

static uint32_t by_bytes(uint32_t crc, std::span<const std::byte> bytes) {
  static constexpr std::array<uint32_t, 256> kTable = make_table();
  for (const std::byte byte : bytes) crc = (crc >> 8) ^ kTable[(crc ^ static_cast<uint32_t>(byte)) & 0xffu];
  return crc;
}

#if defined(__x86_64__)
// The instruction that SSE4.2 has for it: a compiled ViT-B/16 of 344 MB is checked in a tenth of a second instead of one.
__attribute__((target("sse4.2"))) static uint32_t by_words(uint32_t crc, std::span<const std::byte> bytes) {
  uint64_t wide = crc;
  for (; bytes.size() >= sizeof(uint64_t); bytes = bytes.subspan(sizeof(uint64_t))) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data(), sizeof word);
    wide = __builtin_ia32_crc32di(wide, word);
  }
  return by_bytes(static_cast<uint32_t>(wide), bytes);
}
#endif

uint32_t crc32c(std::span<const std::byte> bytes) {
  constexpr uint32_t kBegin = 0xffffffffu;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("sse4.2") != 0) return ~by_words(kBegin, bytes);
#endif
  return ~by_bytes(kBegin, bytes);
}

}  // namespace dlpipe
