#include <gtest/gtest.h>

#include "dlpipe/codec.h"
#include "tests/io/data/codec/image_files.h"

// PNMs written here: the headers that Pillow, which wrote the golden images, doesn't write.
namespace dlpipe::data {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::vector<uint8_t> pixels_of(std::string_view file, int width, int height, int channels = 1) {
  Pixels pixels(width, height, channels);
  const Status status = ImageDecoder().decode(bytes_of(file), all_of(pixels), pixels.view());
  EXPECT_TRUE(status.ok()) << status.message();
  return pixels.bytes;
}

TEST(Pnm, CommentsAndBlanksMayStandAnywhereInTheHeader) {
  const std::vector<uint8_t> wanted = {'a', 'b'};
  for (const std::string_view file :
       {"P5 2 1 255\nab", "P5#a comment\n2 1 255\nab", "P5\n# one\n# two\n2\t1\r\n#three\n255\nab",
        "P5\n2 1 # behind\n255 ab"}) {
    EXPECT_EQ(pixels_of(file, 2, 1), wanted) << file;
  }
}

TEST(Pnm, SamplesAreScaledToTheirLargest) {
  EXPECT_EQ(pixels_of(std::string_view("P5 4 1 3\n\0\1\2\3", 13), 4, 1),
            (std::vector<uint8_t>{0, 85, 170, 255}));
  EXPECT_EQ(pixels_of("P5 1 1 3\n\x09", 1, 1), std::vector<uint8_t>{255}) << "more than the largest";
  EXPECT_EQ(pixels_of(std::string_view("P5 2 1 300\n\0\x96\1\x2c", 15), 2, 1),
            (std::vector<uint8_t>{128, 255}));
  EXPECT_EQ(pixels_of(std::string_view("P5 2 1 65535\n\x12\x34\xff\xff", 17), 2, 1),
            (std::vector<uint8_t>{0x12, 0xff}));
  EXPECT_EQ(pixels_of("P6 1 1 255\nabc", 1, 1, 3), (std::vector<uint8_t>{'a', 'b', 'c'}));
}

// Pillow's values.
TEST(Pnm, SamplesAreRoundedAsPillowDoes) {
  EXPECT_EQ(pixels_of("P5 3 1 6\n\1\3\5", 3, 1), (std::vector<uint8_t>{42, 128, 212})) << "ties go to even";
  EXPECT_EQ(pixels_of(std::string_view("P6 1 1 65535\n\0\x81\0\xff\1\xff", 19), 1, 1, 3),
            (std::vector<uint8_t>{1, 1, 2}));
  EXPECT_EQ(pixels_of(std::string_view("P6 1 1 1000\n\0\1\1\xf4\3\xe8", 18), 1, 1, 3),
            (std::vector<uint8_t>{0, 128, 255}));
  EXPECT_EQ(pixels_of(std::string_view("P5 3 1 65534\n\0\xff\1\0\x7f\xff", 19), 3, 1),
            (std::vector<uint8_t>{0, 1, 128}))
      << "the upper byte of 255, 256 and 32768";
}

TEST(Pnm, BitsAreBlackWhereTheyAreSetAndRowsBeginAtBytes) {
  const std::string_view file("P4 9 2\n\x80\x80\0\0", 11);
  std::vector<uint8_t> wanted(18, 255);
  wanted[0] = wanted[8] = 0;
  EXPECT_EQ(pixels_of(file, 9, 2), wanted);
}

TEST(Pnm, WhatCantBeIsNamed) {
  const auto expect = [](std::string_view file, std::string_view said) {
    const std::string message = probe_image(bytes_of(file)).status().message();
    EXPECT_NE(message.find(said), std::string::npos) << file << ": " << message;
  };
  expect("P5 0 1 255\nab", "invalid header");
  expect("P5 2 0 255\nab", "invalid header");
  expect("P5 2 1 0\nab", "invalid header");
  expect("P5 2 1 65536\nabcd", "invalid header");
  expect("P5 2147483648 1 255\nab", "invalid header");
  expect("P5 2 1 255", "truncated");
  expect("P5 2 1 255x", "truncated");
  expect("P5 2 1 255\na", "fewer pixels");
  expect("P5 2 2 255\nabc", "fewer pixels");
  expect("P5 2 1 256\nabc", "fewer pixels");
  expect("P3 1 1 255 1 2 3", "text PNM");
  // No PNM at all.
  for (const std::string_view other :
       {"P5", "P7 2 1 255\nab", "P0 2 1 255\nab", "P5x2 1 255\nab", "Q5 2 1 255\nab"})
    EXPECT_EQ(probe_image(bytes_of(other)).status().message().find("PNM:"), std::string::npos) << other;
}

}  // namespace
}  // namespace dlpipe::data
