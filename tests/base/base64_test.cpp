#include "base/bytes.h"

#include <gtest/gtest.h>

namespace dlpipe {
namespace {

TEST(Base64, WritesTheVectorsOfRfc4648) {
  const std::string_view text = "foobar";
  const char* const expected[] = {"", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"};
  for (size_t count = 0; count <= text.size(); ++count) {
    EXPECT_EQ(to_base64(text.substr(0, count)), expected[count]);
    EXPECT_EQ(from_base64(expected[count]), text.substr(0, count));
  }
}

TEST(Base64, TakesEveryByte) {
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes += static_cast<char>(i);
  for (size_t count = 253; count <= 256; ++count)
    EXPECT_EQ(from_base64(to_base64(bytes.substr(0, count))), bytes.substr(0, count));
}

TEST(Base64, RefusesWhatItDoesNotWrite) {
  for (const char* text :
       {"Z", "Zg", "Zg=", "Zg===", "=", "====", "Zh==", "Zm9=", "Z===", "Zm9v\n", "Zm-v", "Z=8=", "Zg==Zg=="})
    EXPECT_EQ(from_base64(text), std::nullopt) << text;
}

}  // namespace
}  // namespace dlpipe
