#include "dlpipe/base/crc32c.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace dlpipe {
namespace {

TEST(Crc32c, EqualsThePublishedVectors) {
  const std::string digits = "123456789";
  EXPECT_EQ(crc32c(std::as_bytes(std::span(digits))), 0xe3069283u);
  const std::vector<std::byte> zeros(32);  // RFC 3720, B.4
  EXPECT_EQ(crc32c(zeros), 0x8a9136aau);
  // Beside its definition, bit by bit, at every length and beginning.
  std::vector<std::byte> bytes(96);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 37 + 11);
  for (size_t begin = 0; begin < 8; ++begin) {
    for (size_t count = 0; count <= 70; ++count) {
      const std::span<const std::byte> part(bytes.data() + begin, count);
      uint32_t crc = 0xffffffffu;
      for (const std::byte byte : part) {
        crc ^= static_cast<uint32_t>(byte);
        for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78u : 0u);
      }
      ASSERT_EQ(crc32c(part), ~crc) << begin << " " << count;
    }
  }
}

}  // namespace
}  // namespace dlpipe
