// Masks: numbers of pixels as they stand in the file.
#include "io/data/codec/mask.h"

#include <gtest/gtest.h>

#include "dlpipe/codec.h"
#include "io/data/codec/bitmaps.h"
#include "tests/io/data/codec/image_files.h"

namespace dlpipe::data {
namespace {

std::vector<uint8_t> values_of(const std::string& name) {
  MaskDecoder decoder;
  const std::vector<std::byte> bytes = read_image(name);
  const ConstImageView mask = value_or_throw(decoder.decode(bytes));
  EXPECT_EQ(mask.channels, 1);
  std::vector<uint8_t> values;
  for (int y = 0; y < mask.height; ++y) values.insert(values.end(), mask.row(y), mask.row(y) + mask.width);
  return values;
}

// Hashes of Pillow's numpy.array(Image.open(name)), which are indices where there is a palette.
TEST(MaskDecoder, PalettesGiveTheirIndices) {
  EXPECT_EQ(fnv1a(values_of("palette.png")), 0x20d24f5582353670u);
  EXPECT_EQ(fnv1a(values_of("palette_transparent.png")), 0xad3495f93c85bd99u);
  EXPECT_EQ(fnv1a(values_of("one_bit.png")), 0xefb9a6ebb1f54055u);
  EXPECT_EQ(fnv1a(values_of("grey.png")), 0x55779a7dbe248268u);
}

TEST(MaskDecoder, GreyOfFewBitsIsNotSpreadOver255) {
  std::vector<uint8_t> values = values_of("grey_4.png");
  for (uint8_t& value : values) {
    EXPECT_LE(value, 15);
    value = static_cast<uint8_t>(value * 17);
  }
  EXPECT_EQ(fnv1a(values), 0x6bff7f79f44d4c5du) << "what Pillow shows, which spreads it";
}

TEST(MaskDecoder, RawPixelsAreTakenAsTheyStand) {
  const std::vector<uint8_t> pixels = {0, 1, 2, 3, 254, 255};
  const std::vector<std::byte> raw = encode_raw({pixels.data(), 3, 2, 1, 3});
  MaskDecoder decoder;
  const ConstImageView mask = value_or_throw(decoder.decode(raw));
  EXPECT_EQ(std::vector<uint8_t>(mask.row(0), mask.row(0) + 6), pixels);
}

TEST(MaskDecoder, WhatIsNoMaskIsRefusedAndWhatIsDamagedIsBad) {
  MaskDecoder decoder;
  const auto error = [&](const std::string& name) { return decoder.decode(read_image(name)).status(); };
  EXPECT_NE(error("rgb.png").message().find("a PNG with colours"), std::string::npos);
  EXPECT_NE(error("rgba.png").message().find("a PNG with colours or transparency"), std::string::npos);
  EXPECT_NE(error("grey_alpha.png").message().find("or transparency"), std::string::npos);
  EXPECT_NE(error("grey_16.png").message().find("a PNG with 16 bits; a mask must be a PNG of class numbers"),
            std::string::npos);
  EXPECT_NE(error("grey.jpg").message().find("the mask is an image in format jpeg"), std::string::npos)
      << error("grey.jpg").message();
  EXPECT_EQ(error("rgb.png").code(), ErrorCode::kUnsupported);
  std::vector<std::byte> cut = read_image("palette.png");
  for (const size_t size : {cut.size() / 2, size_t{30}, size_t{26}, size_t{9}, size_t{3}}) {
    cut.resize(size);
    EXPECT_FALSE(decoder.decode(cut).ok()) << size;
  }
  MaskDecoder small({.max_pixels = 100});
  EXPECT_EQ(small.decode(read_image("palette.png")).status().code(), ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace dlpipe::data
