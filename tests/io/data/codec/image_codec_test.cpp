#include "dlpipe/codec.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/text.h"
#include "dlpipe/random.h"
#include "io/data/codec/bitmaps.h"
#include "tests/io/data/codec/image_files.h"

namespace dlpipe::data {
namespace {

Pixels noise(int width, int height, int channels, uint64_t seed) {
  Pixels pixels(width, height, channels);
  RandomStream random(seed, 0);
  for (size_t i = 0; i < pixels.bytes.size(); ++i)
    pixels.bytes[i] = static_cast<uint8_t>(i % 200 + random.below(40));
  return pixels;
}

TEST(ImageCodec, DecodesEveryStoredFormAsPillowDoes) {
  const std::vector<Golden> goldens = golden_images();
  ASSERT_GE(goldens.size(), 30u);
  ImageDecoder decoder;
  for (const Golden& golden : goldens) {
    SCOPED_TRACE(golden.name);
    const std::vector<std::byte> bytes = read_image(golden.name);
    const auto info = probe_image(bytes);
    ASSERT_TRUE(info.ok()) << info.status().message();
    const bool swaps = swaps_axes(info->orientation);
    ASSERT_EQ(swaps ? info->height : info->width, golden.width);
    ASSERT_EQ(swaps ? info->width : info->height, golden.height);
    for (const int channels : {3, 1}) {
      Pixels pixels(golden.width, golden.height, channels);
      const Status status = decoder.decode_oriented(bytes, *info, all_of(pixels), pixels.view());
      ASSERT_TRUE(status.ok()) << status.message();
      EXPECT_EQ(fnv1a(pixels.bytes), channels == 3 ? golden.rgb : golden.grey) << channels << " channels";
    }
  }
}

TEST(ImageCodec, AnyRegionEqualsTheSamePartOfTheFullDecode) {
  ImageDecoder decoder;
  RandomStream random(7, 0);
  for (const Golden& golden : golden_images()) {
    SCOPED_TRACE(golden.name);
    const std::vector<std::byte> bytes = read_image(golden.name);
    const ImageInfo info = *probe_image(bytes);
    Pixels full(golden.width, golden.height, 3);
    ASSERT_TRUE(decoder.decode_oriented(bytes, info, all_of(full), full.view()).ok());
    for (int i = 0; i < 40; ++i) {
      const int width = 1 + static_cast<int>(random.below(golden.width));
      const int height = 1 + static_cast<int>(random.below(golden.height));
      const int x = static_cast<int>(random.below(golden.width - width + 1));
      const int y = static_cast<int>(random.below(golden.height - height + 1));
      Pixels part(width, height, 3);
      const Status status = decoder.decode_oriented(bytes, info, {x, y, width, height}, part.view());
      ASSERT_TRUE(status.ok()) << status.message();
      for (int row = 0; row < height; ++row) {
        ASSERT_EQ(std::memcmp(part.view().row(row), full.view().row(y + row) + ptrdiff_t{x} * 3,
                              static_cast<size_t>(width) * 3),
                  0)
            << "region " << width << "x" << height << "+" << x << "+" << y << ", row " << row;
      }
    }
  }
}

TEST(ImageCodec, LargerImagesOfEverySubsamplingCropExactly) {
  ImageDecoder decoder;
  RandomStream random(8, 0);
  Pixels source = noise(203, 157, 3, 3);
  for (const bool subsample : {true, false}) {
    const std::vector<std::byte> bytes = *encode_jpeg(source.view(), 90, subsample);
    Pixels full(source.width, source.height, 3);
    ASSERT_TRUE(decoder.decode(bytes, all_of(full), full.view()).ok());
    for (int i = 0; i < 150; ++i) {
      const int width = 1 + static_cast<int>(random.below(source.width));
      const int height = 1 + static_cast<int>(random.below(source.height));
      const int x = static_cast<int>(random.below(source.width - width + 1));
      const int y = static_cast<int>(random.below(source.height - height + 1));
      Pixels part(width, height, 3);
      ASSERT_TRUE(decoder.decode(bytes, {x, y, width, height}, part.view()).ok());
      for (int row = 0; row < height; ++row)
        ASSERT_EQ(std::memcmp(part.view().row(row), full.view().row(y + row) + ptrdiff_t{x} * 3,
                              static_cast<size_t>(width) * 3),
                  0);
    }
  }
}

TEST(ImageCodec, WritesRowsAtTheOutputsStride) {
  const std::vector<std::byte> bytes = read_image("rgb_420.jpg");
  Pixels tight(53, 37, 3);
  std::vector<uint8_t> wide(static_cast<size_t>(200) * 37, 0xee);
  ImageDecoder decoder;
  ASSERT_TRUE(decoder.decode(bytes, {0, 0, 53, 37}, tight.view()).ok());
  ASSERT_TRUE(decoder.decode(bytes, {0, 0, 53, 37}, {wide.data(), 53, 37, 3, 200}).ok());
  for (int y = 0; y < 37; ++y) {
    EXPECT_EQ(std::memcmp(wide.data() + ptrdiff_t{y} * 200, tight.view().row(y), 53 * 3), 0);
    EXPECT_EQ(wide[static_cast<size_t>(y) * 200 + 53 * 3], 0xee) << "wrote past the row";
  }
}

TEST(ImageCodec, TruncatedFilesAreBad) {
  ImageDecoder decoder;
  for (const char* name : {"rgb_420.jpg", "progressive_420.jpg", "grey.jpg", "rgb.png", "palette.png"}) {
    const std::vector<std::byte> bytes = read_image(name);
    const ImageInfo info = *probe_image(bytes);
    Pixels pixels(info.width, info.height, 3);
    const std::span<const std::byte> cut(bytes.data(), bytes.size() * 3 / 4);
    const Status status = decoder.decode(cut, all_of(pixels), pixels.view());
    EXPECT_EQ(status.code(), ErrorCode::kCorrupt) << name << ": " << status.message();
    EXPECT_TRUE(decoder.decode(bytes, all_of(pixels), pixels.view()).ok()) << name << " after a bad one";
  }
}

TEST(ImageCodec, ABeginSaysTheSameAsTheWholeFileOrNothing) {
  for (const Golden& golden : golden_images()) {
    const std::vector<std::byte> bytes = read_image(golden.name);
    const auto whole = probe_image(bytes);
    if (!whole.ok()) continue;
    for (size_t size = 0; size <= bytes.size(); size += size < 2048 ? 1 : 97) {
      const auto begin = probe_begin(std::span(bytes).first(size), bytes.size());
      if (!begin.ok()) continue;
      ASSERT_EQ(begin->layout, whole->layout) << golden.name << ", " << size << " bytes";
      ASSERT_EQ(begin->width, whole->width) << golden.name << ", " << size << " bytes";
      ASSERT_EQ(begin->height, whole->height) << golden.name << ", " << size << " bytes";
      ASSERT_EQ(begin->channels, whole->channels) << golden.name << ", " << size << " bytes";
      ASSERT_EQ(begin->orientation, whole->orientation) << golden.name << ", " << size << " bytes";
      ASSERT_EQ(begin->has_alpha, whole->has_alpha) << golden.name << ", " << size << " bytes";
    }
    EXPECT_TRUE(probe_begin(bytes, bytes.size()).ok()) << golden.name;
  }
}

TEST(ImageCodec, AWarningOfMissingBitsIsAnError) {
  // Bytes that the Huffman decoder can read, but fewer than the image has: libjpeg only warns.
  std::vector<std::byte> bytes = read_image("rgb_420.jpg");
  bytes.erase(bytes.end() - 42, bytes.end() - 2);
  ImageDecoder decoder;
  Pixels pixels(53, 37, 3);
  const Status status = decoder.decode(bytes, all_of(pixels), pixels.view());
  EXPECT_EQ(status.code(), ErrorCode::kCorrupt);
  EXPECT_NE(status.message().find("corrupt JPEG"), std::string::npos) << status.message();
}

TEST(ImageCodec, AHugeHeaderIsRefusedBeforeAnyAllocation) {
  std::vector<std::byte> bytes = read_image("rgb_420.jpg");
  for (size_t i = 2; i + 9 < bytes.size(); ++i) {
    if (bytes[i] == std::byte{0xff} && bytes[i + 1] == std::byte{0xc0}) {
      bytes[i + 5] = bytes[i + 7] = std::byte{0x75};  // 30,000 = 0x7530
      bytes[i + 6] = bytes[i + 8] = std::byte{0x30};
      break;
    }
  }
  const Status claim = probe_image(bytes).status();
  EXPECT_EQ(claim.code(), ErrorCode::kCorrupt);
  EXPECT_NE(claim.message().find("claims 30000x30000 pixels, more than its"), std::string::npos)
      << claim.message();
  bytes.resize(size_t{6} << 20);  // it could hold them now
  const ImageInfo info = *probe_image(bytes);
  ASSERT_EQ(info.width, 30000);
  ASSERT_EQ(info.height, 30000);
  EXPECT_EQ(check_pixels(info, 899'999'999).code(), ErrorCode::kUnsupported);
  EXPECT_TRUE(check_pixels(info, 900'000'000).ok());
  Pixels pixels(8, 8, 3);
  const Status status = ImageDecoder().decode(bytes, {0, 0, 8, 8}, pixels.view());
  EXPECT_EQ(status.code(), ErrorCode::kUnsupported);
  EXPECT_NE(status.message().find("--max-pixels"), std::string::npos) << status.message();
}

TEST(ImageCodec, APngThatItsBytesCantHoldIsDamaged) {
  std::vector<std::byte> bytes = read_image("rgb.png");
  ASSERT_TRUE(probe_image(bytes).ok());
  for (const uint32_t side : {60'000u, 0x7fffffffu}) {
    for (size_t i = 0; i < 4; ++i)
      bytes[16 + i] = bytes[20 + i] = static_cast<std::byte>(side >> (24 - 8 * i));
    const Status status = probe_image(bytes).status();
    EXPECT_EQ(status.code(), ErrorCode::kCorrupt);
    EXPECT_NE(status.message().find(concat("PNG claims ", side, "x", side)), std::string::npos)
        << status.message();
  }
}

TEST(ImageCodec, ScansAndCoefficientMemoryOfProgressiveFilesAreLimited) {
  const std::vector<std::byte> bytes = read_image("progressive_420.jpg");
  Pixels pixels(53, 37, 3);
  DecodeLimits few_scans;
  few_scans.max_scans = 2;
  EXPECT_EQ(ImageDecoder(few_scans).decode(bytes, all_of(pixels), pixels.view()).code(),
            ErrorCode::kUnsupported);
  DecodeLimits little_memory;
  little_memory.max_memory_bytes = 1 << 10;
  EXPECT_EQ(ImageDecoder(little_memory).decode(bytes, all_of(pixels), pixels.view()).code(),
            ErrorCode::kUnsupported);
  EXPECT_TRUE(ImageDecoder().decode(bytes, all_of(pixels), pixels.view()).ok());
}

TEST(ImageCodec, ForeignFormatsAreNamed) {
  const auto code_of = [](std::string_view text) {
    return probe_image(std::as_bytes(std::span(text.data(), text.size()))).status();
  };
  EXPECT_NE(code_of("GIF89a.....").message().find("GIF"), std::string::npos);
  EXPECT_EQ(code_of(std::string_view("RIFF\x08\0\0\0WEBPVP8 ", 16)).code(), ErrorCode::kCorrupt);
  EXPECT_NE(code_of(std::string_view("\0\0\0\x18"
                                     "ftypheic\0\0",
                                     14))
                .message()
                .find("no decoder for HEIC images"),
            std::string::npos);
  EXPECT_NE(code_of(std::string_view("\0\0\0\x18"
                                     "ftypavif\0\0",
                                     14))
                .message()
                .find("AVIF"),
            std::string::npos);
  EXPECT_NE(code_of("P3 1 1 255 1 2 3").message().find("text PNM"), std::string::npos);
  EXPECT_EQ(code_of("GIF89a.....").code(), ErrorCode::kUnsupported);
  EXPECT_EQ(code_of("hello, world").code(), ErrorCode::kCorrupt);
  EXPECT_EQ(code_of("").code(), ErrorCode::kCorrupt);
}

TEST(ImageCodec, RandomDamageNeverCrashes) {
  ImageDecoder decoder;
  RandomStream random(11, 0);
  for (const Golden& golden : golden_images()) {
    const std::vector<std::byte> good = read_image(golden.name);
    for (int round = 0; round < 60; ++round) {
      std::vector<std::byte> bytes = good;
      for (uint32_t i = 0, edits = 1 + random.below(8); i < edits; ++i)
        bytes[random.below(static_cast<uint32_t>(bytes.size()))] = static_cast<std::byte>(random.below(256));
      if (random.below(4) == 0) bytes.resize(random.below(static_cast<uint32_t>(bytes.size())));
      const auto info = probe_image(bytes);
      if (!info.ok() || int64_t{info->width} * info->height > 1 << 20) continue;
      const bool swaps = swaps_axes(info->orientation);
      Pixels pixels(swaps ? info->height : info->width, swaps ? info->width : info->height, 3);
      const Status status = decoder.decode_oriented(bytes, *info, all_of(pixels), pixels.view());
      EXPECT_NE(status.code(), ErrorCode::kMisuse) << golden.name << ": " << status.message();
    }
  }
}

TEST(ImageCodec, RegionsOutsideTheImageAreRefused) {
  ImageDecoder decoder;
  for (const Golden& golden : golden_images()) {
    SCOPED_TRACE(golden.name);
    const std::vector<std::byte> bytes = read_image(golden.name);
    const ImageInfo info = *probe_image(bytes);
    Pixels pixels(info.width, info.height, 3);
    const auto code = [&](int x, int y) {
      return decoder.decode(bytes, {x, y, info.width, info.height}, pixels.view()).code();
    };
    for (const auto& [x, y] : {std::pair{1, 0}, {0, 1}, {-1, 0}, {0, -1}, {0, 2000}})
      EXPECT_EQ(code(x, y), ErrorCode::kMisuse) << x << ", " << y;
    EXPECT_EQ(decoder.decode_oriented(bytes, info, {0, 2000, info.width, info.height}, pixels.view()).code(),
              ErrorCode::kMisuse);
    EXPECT_EQ(decoder.decode(bytes, {0, 0, info.width + 1, info.height}, pixels.view()).code(),
              ErrorCode::kMisuse);
  }
}

TEST(ImageCodec, LosslessEncodersGiveTheSamePixelsBack) {
  for (const int channels : {1, 3}) {
    Pixels source = noise(31, 22, channels, 5);
    for (const auto& bytes : {encode_raw(source.view()), *encode_png(source.view())}) {
      ASSERT_EQ(probe_image(bytes)->channels, channels);
      Pixels back(31, 22, channels);
      ASSERT_TRUE(ImageDecoder().decode(bytes, all_of(back), back.view()).ok());
      EXPECT_EQ(back.bytes, source.bytes);
      Pixels part(5, 7, channels);
      ASSERT_TRUE(ImageDecoder().decode(bytes, {20, 10, 5, 7}, part.view()).ok());
      EXPECT_EQ(part.bytes[0], source.view().row(10)[20 * channels]);
    }
  }
}

TEST(ImageCodec, PngsOfAMillionPixelsASideAndMoreAreWritten) {
  for (const auto& [width, height] : {std::pair{1'500'000, 1}, {1, 1'500'000}}) {
    Pixels source = noise(width, height, 1, 5);
    const auto bytes = encode_png(source.view());
    ASSERT_TRUE(bytes.ok()) << bytes.status().message();
    Pixels back(width, height, 1);
    ASSERT_TRUE(ImageDecoder().decode(*bytes, all_of(back), back.view()).ok());
    EXPECT_TRUE(back.bytes == source.bytes);
  }
}

TEST(ImageCodec, JpegEncoderChecksItsArguments) {
  Pixels source = noise(16, 16, 3, 5);
  EXPECT_EQ(encode_jpeg(source.view(), 0).status().code(), ErrorCode::kMisuse);
  EXPECT_EQ(encode_jpeg(source.view(), 101).status().code(), ErrorCode::kMisuse);
  EXPECT_EQ(encode_jpeg(ConstImageView(), 90).status().code(), ErrorCode::kMisuse);
  ImageView too_large = source.view();
  too_large.width = 70'000;  // past JPEG's 65,500: the encoder refuses before it reads a pixel
  EXPECT_EQ(encode_jpeg(too_large, 90).status().code(), ErrorCode::kUnsupported);
}

TEST(ImageCodec, RawHeadersMustMatchTheirBytes) {
  Pixels source = noise(6, 5, 3, 5);
  std::vector<std::byte> bytes = encode_raw(source.view());
  bytes[16] = std::byte{2};
  bytes.resize(bytes.size() - size_t{6} * 5);  // as long as that says
  const Status status = probe_image(bytes).status();
  EXPECT_EQ(status.code(), ErrorCode::kCorrupt);
  EXPECT_NE(status.message().find("6x5x2, which is not a valid size"), std::string::npos) << status.message();
  bytes = encode_raw(source.view());
  bytes.pop_back();
  EXPECT_EQ(probe_image(bytes).status().code(), ErrorCode::kCorrupt);
  bytes.resize(10);
  EXPECT_EQ(probe_image(bytes).status().code(), ErrorCode::kCorrupt);
}

}  // namespace
}  // namespace dlpipe::data
