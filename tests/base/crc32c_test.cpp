#include "base/bytes.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace dlpipe {
namespace {

// Bit by bit, as both are defined.
uint32_t by_definition(uint32_t reflected_polynomial, std::span<const std::byte> bytes) {
  uint32_t crc = 0xffffffffu;
  for (const std::byte byte : bytes) {
    crc ^= static_cast<uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? reflected_polynomial : 0u);
  }
  return ~crc;
}

TEST(Crc32c, EqualsThePublishedVectors) {
  const std::string digits = "123456789";
  EXPECT_EQ(crc32c(std::as_bytes(std::span(digits))), 0xe3069283u);
  const std::vector<std::byte> zeros(32);  // RFC 3720, B.4
  EXPECT_EQ(crc32c(zeros), 0x8a9136aau);
  EXPECT_EQ(zip_crc32(std::as_bytes(std::span(digits))), 0xcbf43926u);
  // Beside the definition, at every length and beginning.
  std::vector<std::byte> bytes(96);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 37 + 11);
  for (size_t begin = 0; begin < 8; ++begin) {
    for (size_t count = 0; count <= 70; ++count) {
      const std::span<const std::byte> part(bytes.data() + begin, count);
      ASSERT_EQ(crc32c(part), by_definition(0x82f63b78u, part)) << begin << " " << count;
      const std::span<const std::byte> before(bytes.data(), begin);
      ASSERT_EQ(zip_crc32(part, zip_crc32(before)),
                by_definition(0xedb88320u, std::span(bytes).first(begin + count)))
          << begin << " " << count;
    }
  }
}

}  // namespace
}  // namespace dlpipe
