#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "dlpipe/codec.h"
#include "tests/io/data/codec/image_files.h"

namespace dlpipe::data {
namespace {

/// A lossless WebP of one colour. Its five prefix codes have a single symbol each, so a pixel takes no bits.
std::vector<std::byte> lossless_of_one_colour(int width, int height) {
  uint64_t bits = 0x2f;
  int count = 8;
  const auto put = [&](uint64_t value, int size) {
    bits |= value << count;
    count += size;
  };
  put(static_cast<uint64_t>(width - 1), 14);
  put(static_cast<uint64_t>(height - 1), 14);
  put(0, 1 + 3);                               // no alpha; version
  put(0, 3);                                   // no transform, no cache of colours, one group of codes
  for (int i = 0; i < 5; ++i) put(0b0001, 4);  // a simple code of one symbol, which is 0
  std::vector<std::byte> file;
  const auto text = [&](std::string_view letters) {
    for (const char letter : letters) file.push_back(static_cast<std::byte>(letter));
  };
  text("RIFF");
  append_le(file, uint32_t{20});
  text("WEBPVP8L");
  append_le(file, uint32_t{8});
  append_le(file, bits);
  return file;
}

Status decode(int width, int height, const Region& region, const DecodeLimits& limits) {
  Pixels pixels(region.width, region.height, 3);
  return ImageDecoder(limits).decode(lossless_of_one_colour(width, height), region, pixels.view());
}

TEST(Webp, WhatLibwebpTakesForTheWholeImageIsLimited) {
  const Region corner = {0, 0, 8, 8};
  // Four bytes a pixel in libwebp, and the corner with two more columns and rows, which its upsampling may look at.
  constexpr int64_t kNeeded = 4 * 1000 * 1000 + 3 * 10 * 10;
  EXPECT_TRUE(decode(1000, 1000, corner, {.max_memory_bytes = kNeeded}).ok());
  EXPECT_EQ(decode(1000, 1000, corner, {.max_memory_bytes = kNeeded - 1}).code(), ErrorCode::kUnsupported);
}

TEST(Webp, APartOfALossyImageTakesNoMoreThanThePart) {
  const std::vector<std::byte> bytes = read_image("lossy.webp");
  Pixels pixels(8, 8, 3);
  const auto with = [&](int64_t memory) {
    return ImageDecoder({.max_memory_bytes = memory}).decode(bytes, {0, 0, 8, 8}, pixels.view());
  };
  EXPECT_TRUE(with(300).ok());
  EXPECT_EQ(with(299).code(), ErrorCode::kUnsupported);
}

TEST(Webp, MemoryOfALargeImageIsGivenBack) {
  Pixels pixels(4000, 3000, 3);
  ImageDecoder decoder;
  const Status status = decoder.decode(lossless_of_one_colour(4000, 3000), all_of(pixels), pixels.view());
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_LT(decoder.scratch_bytes(), size_t{1} << 20);
}

}  // namespace
}  // namespace dlpipe::data
