#include "base/bytes.h"

#include <array>
#include <cstdint>
#include <cstring>

namespace dlpipe {

// ---- checksums

using Tables = std::array<std::array<uint32_t, 256>, 8>;

/// Table k is the contribution of a byte that is followed by k bytes.
static constexpr Tables make_tables(uint32_t reflected_polynomial) {
  Tables tables{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? reflected_polynomial : 0u);
    tables[0][i] = crc;
  }
  for (size_t k = 1; k < tables.size(); ++k) {
    for (size_t i = 0; i < 256; ++i)
      tables[k][i] = (tables[k - 1][i] >> 8) ^ tables[0][tables[k - 1][i] & 0xffu];
  }
  return tables;
}

static uint32_t by_tables(const Tables& tables, uint32_t crc, std::span<const std::byte> bytes) {
  for (; bytes.size() >= tables.size(); bytes = bytes.subspan(tables.size())) {
    const uint64_t word = load_le<uint64_t>(bytes, 0) ^ crc;
    crc = 0;
    for (size_t i = 0; i < tables.size(); ++i) crc ^= tables[7 - i][(word >> (8 * i)) & 0xffu];
  }
  for (const std::byte byte : bytes)
    crc = (crc >> 8) ^ tables[0][(crc ^ static_cast<uint32_t>(byte)) & 0xffu];
  return crc;
}

static constexpr uint32_t kBegin = 0xffffffffu;
static constexpr Tables kCrc32cTables = make_tables(0x82f63b78u);  // reflected 0x1EDC6F41

#if defined(__x86_64__)
// Uses SSE4.2's instruction: a compiled ViT-B/16 of 344 MB is checked in a tenth of a second instead of one.
__attribute__((target("sse4.2"))) static uint32_t by_words(uint32_t crc, std::span<const std::byte> bytes) {
  uint64_t wide = crc;
  for (; bytes.size() >= sizeof(uint64_t); bytes = bytes.subspan(sizeof(uint64_t))) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data(), sizeof word);
    wide = __builtin_ia32_crc32di(wide, word);
  }
  return by_tables(kCrc32cTables, static_cast<uint32_t>(wide), bytes);
}
#endif

uint32_t crc32c(std::span<const std::byte> bytes) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("sse4.2") != 0) return ~by_words(kBegin, bytes);
#endif
  return ~by_tables(kCrc32cTables, kBegin, bytes);
}

uint32_t zip_crc32(std::span<const std::byte> bytes, uint32_t before) {
  static constexpr Tables kTables = make_tables(0xedb88320u);  // reflected 0x04C11DB7
  return ~by_tables(kTables, ~before, bytes);
}

// ---- base64

static constexpr std::string_view kDigits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

std::string to_base64(std::string_view bytes) {
  std::string text;
  for (size_t at = 0; at < bytes.size(); at += 3) {
    const std::string_view group = bytes.substr(at, 3);
    uint32_t bits = 0;
    for (size_t i = 0; i < 3; ++i)
      bits = bits << 8 | (i < group.size() ? static_cast<unsigned char>(group[i]) : 0);
    for (size_t i = 0; i < 4; ++i) text += i <= group.size() ? kDigits[bits >> (18 - 6 * i) & 63] : '=';
  }
  return text;
}

std::optional<std::string> from_base64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  std::string bytes;
  for (size_t at = 0; at < text.size(); at += 4) {
    uint32_t bits = 0;
    for (const char character : text.substr(at, 4)) {
      const size_t digit = kDigits.find(character);
      bits = bits << 6 | (digit == std::string_view::npos ? 0 : static_cast<uint32_t>(digit));
    }
    for (size_t i = 0; i < 3; ++i) bytes += static_cast<char>(bits >> (16 - 8 * i) & 255);
  }
  const size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  bytes.resize(bytes.size() - padding);
  if (to_base64(bytes) != text) return std::nullopt;  // an invalid character, or bits after the last byte
  return bytes;
}

}  // namespace dlpipe
