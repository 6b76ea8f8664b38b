// JPEGs without tables of their own, as frames of Motion JPEG are: what they decode to depends on them alone,
// not on the image that the same decoder had before.
#include <gtest/gtest.h>

#include "dlpipe/codec.h"
#include "io/data/codec/coef/jpeg_coefficients.h"
#include "io/data/codec/restart.h"
#include "tests/io/data/codec/image_files.h"
#include "tests/io/data/codec/jpeg_surgery.h"
#include "tests/io/data/codec/written_jpegs.h"

namespace dlpipe::data {
namespace {

/// Images whose tables differ from each other and from the standard's.
std::vector<std::vector<std::byte>> neighbours() {
  return {written({.dc_quant = 3, .ac_quant = 7}), written({.dc_quant = 40, .ac_quant = 90}),
          read_image("progressive_420.jpg"), read_image("rgb_444.jpg")};
}

struct Decoded {
  Status status;
  std::vector<uint8_t> pixels;
};

Decoded decode(ImageDecoder& decoder, std::span<const std::byte> bytes) {
  const ImageInfo info = value_or_throw(probe_image(bytes));
  Pixels pixels(info.width, info.height, 3);
  Status status = decoder.decode(bytes, all_of(pixels), pixels.view());
  return {status, status.ok() ? pixels.bytes : std::vector<uint8_t>()};
}

TEST(JpegTables, MissingHuffmanTablesAreTheStandardOnesWhateverCameBefore) {
  const auto whole = written({.noise = false});  // with the standard tables
  const auto bare = without_segments(whole, kHuffmanTables);
  ASSERT_LT(bare.size(), whole.size());
  ImageDecoder decoder;
  const auto expected = decode(decoder, whole).pixels;
  for (const auto& before : neighbours()) {
    ASSERT_TRUE(decode(decoder, before).status.ok());
    const Decoded got = decode(decoder, bare);
    ASSERT_TRUE(got.status.ok()) << got.status.message();
    EXPECT_EQ(got.pixels, expected);
  }
}

TEST(JpegTables, AnImageWithoutQuantisationTablesIsDamagedWhateverCameBefore) {
  const auto bare = without_segments(written({.noise = false}), kQuantisationTables);
  for (const auto& before : neighbours()) {
    ImageDecoder decoder;
    ASSERT_TRUE(decode(decoder, before).status.ok());
    const Status status = decode(decoder, bare).status;
    EXPECT_EQ(status.code(), ErrorCode::kCorrupt);
    EXPECT_NE(status.message().find("Quantization table 0x00 was not defined"), std::string::npos)
        << status.message();
  }
}

TEST(JpegTables, OtherLayoutsAreMadeWithTheSameTables) {
  const auto whole = written({.noise = false});
  const auto bare = without_segments(whole, kHuffmanTables);
  ImageDecoder decoder;
  const auto expected = decode(decoder, whole).pixels;
  for (const TileKind& tiles : {kFastTiles, kDenseTiles}) {
    const auto record = value_or_throw(encode_coefficients(bare, {}, tiles));
    EXPECT_EQ(decode(decoder, record).pixels, expected);
    const auto jpeg = value_or_throw(coefficients_to_jpeg(record));
    EXPECT_EQ(decode(decoder, jpeg).pixels, expected);
  }
  EXPECT_EQ(decode(decoder, value_or_throw(encode_restart(bare))).pixels, expected);
  const auto no_quant = without_segments(whole, kQuantisationTables);
  EXPECT_EQ(encode_coefficients(no_quant).status().code(), ErrorCode::kCorrupt);
  EXPECT_EQ(encode_restart(no_quant).status().code(), ErrorCode::kCorrupt);
}

// Every image of the codec's tests, after every other: a decoder that was used decodes as a new one.
TEST(JpegTables, NoImageDependsOnItsNeighbour) {
  std::vector<std::vector<std::byte>> files = neighbours();
  for (const Golden& golden : golden_images()) files.push_back(read_image(golden.name));
  const size_t images = files.size();
  for (size_t i = 0; i < images; ++i) {
    const auto info = probe_image(files[i]);
    if (!info.ok() || info->layout != ImageLayout::kJpeg) continue;
    files.push_back(without_segments(files[i], kHuffmanTables));
    files.push_back(without_segments(files[i], kQuantisationTables));
  }
  ImageDecoder used;
  for (const auto& file : files) {
    ImageDecoder fresh;
    const Decoded expected = decode(fresh, file);
    for (const auto& before : files) {
      (void)decode(used, before);
      const Decoded got = decode(used, file);
      ASSERT_EQ(got.status.message(), expected.status.message());
      ASSERT_EQ(got.pixels, expected.pixels);
    }
  }
}

}  // namespace
}  // namespace dlpipe::data
