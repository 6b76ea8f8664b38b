#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>

#include "dlpipe/codec.h"
#include "dlpipe/random.h"
#include "io/data/codec/coef/decoder.h"
#include "io/data/codec/coef/jpeg_coefficients.h"
#include "io/data/codec/coef/jpeg_scan.h"
#include "io/data/codec/coef/kernels.h"
#include "io/data/codec/coef/record.h"
#include "io/data/codec/coef/tile_code.h"
#include "io/data/codec/coef/tile_reader.h"
#include "tests/augment/every_target.h"
#include "tests/base/test_file.h"
#include "tests/io/data/codec/image_files.h"
#include "tests/io/data/codec/jpeg_surgery.h"

namespace dlpipe::data {
namespace {

bool is_jpeg(const std::string& name) {
  return name.ends_with(".jpg");
}

Pixels decoded(std::span<const std::byte> bytes, const Region& region, int channels = 3) {
  Pixels pixels(region.width, region.height, channels);
  ImageDecoder decoder;
  const Status status = decoder.decode(bytes, region, pixels.view());
  EXPECT_TRUE(status.ok()) << status.message();
  return pixels;
}

/// Tiles of both forms and all sizes, one after another.
TileKind kind_of(int i) {
  return {i % 2 == 0 ? coef::TileForm::kPacked : coef::TileForm::kCoded, 4 << i / 2 % 3};
}

/// Smooth shapes with noise on them: blocks of every kind.
Pixels drawing(int width, int height, int channels, uint64_t seed, uint32_t noise) {
  Pixels pixels(width, height, channels);
  RandomStream random(seed, 0);
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width * channels; ++x) {
      const int smooth = (x * (1 + x % channels) / 3 + y * 2 + (x / 17 * y / 11) * 30) % 256;
      const int rough = noise == 0 || (x / 40 + y / 24) % 3 == 0 ? 0 : static_cast<int>(random.below(noise));
      pixels.view().row(y)[x] = static_cast<uint8_t>(std::min(255, smooth * 3 / 4 + rough));
    }
  }
  return pixels;
}

TEST(Coefficients, EveryGoldenJpegKeepsItsPixels) {
  int kept = 0;
  for (const Golden& golden : golden_images()) {
    if (!is_jpeg(golden.name)) continue;
    SCOPED_TRACE(golden.name);
    const std::vector<std::byte> jpeg = read_image(golden.name);
    const auto record = encode_coefficients(jpeg, {}, kind_of(kept));
    ASSERT_TRUE(record.ok()) << record.status().message();
    const ImageInfo info = *probe_image(*record);
    const ImageInfo source = *probe_image(jpeg);
    EXPECT_EQ(info.layout, ImageLayout::kCoefficients);
    EXPECT_EQ(info.width, source.width);
    EXPECT_EQ(info.height, source.height);
    EXPECT_EQ(info.channels, source.channels);
    EXPECT_EQ(info.orientation, source.orientation);
    for (const int channels : {3, 1}) {
      Pixels pixels(golden.width, golden.height, channels);
      const Status status = ImageDecoder().decode_oriented(*record, info, all_of(pixels), pixels.view());
      ASSERT_TRUE(status.ok()) << status.message();
      EXPECT_EQ(fnv1a(pixels.bytes), channels == 3 ? golden.rgb : golden.grey) << channels << " channels";
    }
    ++kept;
  }
  EXPECT_GE(kept, 15);
}

TEST(Coefficients, AnyRegionEqualsTheSamePartOfTheWhole) {
  RandomStream random(5, 0);
  for (const Golden& golden : golden_images()) {
    if (!is_jpeg(golden.name)) continue;
    SCOPED_TRACE(golden.name);
    const std::vector<std::byte> jpeg = read_image(golden.name);
    const ImageInfo info = *probe_image(jpeg);
    const Pixels full = decoded(jpeg, {0, 0, info.width, info.height});
    for (int i = 0; i < 60; ++i) {
      const std::vector<std::byte> record = *encode_coefficients(jpeg, {}, kind_of(i));
      const int width = 1 + static_cast<int>(random.below(static_cast<uint32_t>(info.width)));
      const int height = 1 + static_cast<int>(random.below(static_cast<uint32_t>(info.height)));
      const int x = static_cast<int>(random.below(static_cast<uint32_t>(info.width - width + 1)));
      const int y = static_cast<int>(random.below(static_cast<uint32_t>(info.height - height + 1)));
      Pixels part = decoded(record, {x, y, width, height});
      for (int row = 0; row < height; ++row) {
        ASSERT_EQ(
            std::memcmp(part.view().row(row), full.bytes.data() + (ptrdiff_t{y + row} * info.width + x) * 3,
                        static_cast<size_t>(width) * 3),
            0)
            << width << "x" << height << "+" << x << "+" << y << ", row " << row;
      }
    }
  }
}

TEST(Coefficients, ImagesOfAllSizesAndQualitiesEqualLibjpegs) {
  RandomStream random(9, 0);
  for (int i = 0; i < 120; ++i) {
    const int width = 1 + static_cast<int>(random.below(i % 3 == 0 ? 40 : 400));
    const int height = 1 + static_cast<int>(random.below(i % 3 == 0 ? 40 : 300));
    const int quality = i % 10 == 0 ? 100 : i % 10 == 1 ? 1 : 20 + static_cast<int>(random.below(79));
    Pixels image = drawing(width, height, i % 4 == 0 ? 1 : 3, static_cast<uint64_t>(i), random.below(255));
    const std::vector<std::byte> jpeg = *encode_jpeg(image.view(), quality, i % 2 == 0);
    const auto record = encode_coefficients(jpeg, {}, kind_of(i));
    ASSERT_TRUE(record.ok()) << record.status().message();
    const Region all = {0, 0, width, height};
    ASSERT_EQ(decoded(*record, all).bytes, decoded(jpeg, all).bytes)
        << width << "x" << height << " quality " << quality;
    EXPECT_TRUE(*keeps_source_bytes(*record));
    EXPECT_EQ(*coefficients_to_jpeg(*record), jpeg);
  }
}

TEST(Coefficients, ExportedJpegsHaveTheSamePixelsAndMetadata) {
  int exported = 0;
  for (const Golden& golden : golden_images()) {
    if (!is_jpeg(golden.name)) continue;
    SCOPED_TRACE(golden.name);
    const std::vector<std::byte> jpeg = read_image(golden.name);
    const std::vector<std::byte> record = *encode_coefficients(jpeg, {}, kind_of(exported++));
    const auto back = coefficients_to_jpeg(record);
    ASSERT_TRUE(back.ok()) << back.status().message();
    if (*keeps_source_bytes(record)) {
      EXPECT_EQ(*back, jpeg);
    }
    const ImageInfo info = *probe_image(*back);
    EXPECT_EQ(info.orientation, probe_image(jpeg)->orientation);
    const Region all = {0, 0, info.width, info.height};
    EXPECT_EQ(decoded(*back, all).bytes, decoded(jpeg, all).bytes);
  }
}

void expect_samples_of_the_twin(const coef::Kernels& fast) {
  RandomStream random(3, 0);
  const coef::Kernels& plain = coef::scalar_kernels();
  coef::TileBlocks blocks;
  for (int round = 0; round < 300; ++round) {
    coef::QuantTable quant;
    for (int16_t& q : quant) q = static_cast<int16_t>(1 + random.below(round % 5 == 0 ? 120 : 20));
    blocks.wide_count = 0;
    blocks.wide_blocks = 0;
    for (int b = 0; b < coef::kMaxTileBlocks; ++b) {
      blocks.groups[b] = static_cast<uint8_t>(random.below(round % 2 == 0 ? 9 : 3));
      blocks.dc[b][0] = static_cast<int16_t>(static_cast<int>(random.below(200)) - 100);
      blocks.values[b].fill(0);
      for (size_t i = 0; i < size_t{8} * blocks.groups[b]; ++i)
        blocks.values[b][i] = static_cast<uint8_t>(random.below(3) == 0 ? 2 + random.below(20) : 0);
      blocks.values[b][0] = 0;
      if (blocks.groups[b] > 4 && round % 7 == 0) {
        blocks.wide[static_cast<size_t>(blocks.wide_count++)] = {static_cast<uint8_t>(b), 9, -90};
        blocks.wide_blocks |= 1u << b;
      }
    }
    const int first = static_cast<int>(random.below(coef::kMaxTileBlocks));
    const int count = 1 + static_cast<int>(random.below(static_cast<uint32_t>(coef::kMaxTileBlocks - first)));
    constexpr ptrdiff_t kStride = 8 * coef::kMaxTileBlocks + coef::kRowPadding;
    std::vector<uint8_t> a(8 * kStride), b(8 * kStride);
    fast.samples(blocks, first, count, quant, a.data(), kStride);
    plain.samples(blocks, first, count, quant, b.data(), kStride);
    for (int y = 0; y < 8; ++y)
      ASSERT_EQ(std::memcmp(a.data() + y * kStride, b.data() + y * kStride, static_cast<size_t>(8 * count)),
                0)
          << "round " << round << " row " << y;
  }
}

TEST(Coefficients, TheVectorsEqualTheirScalarTwin) {
  augment::on_every_target([] { expect_samples_of_the_twin(coef::best_kernels()); });
}

void expect_rows_of_the_twins(const coef::Kernels& fast) {
  RandomStream random(4, 0);
  const coef::Kernels& plain = coef::scalar_kernels();
  for (int count = 1; count < 200; count += 1 + count / 8) {
    const size_t room = 2 * static_cast<size_t>(count) + 4 * coef::kRowPadding;
    std::vector<uint8_t> x(room), y(room), z(room), a(room), b(room);
    for (auto* row : {&x, &y, &z}) {
      for (uint8_t& value : *row) value = static_cast<uint8_t>(random.below(256));
    }
    fast.between(x.data(), y.data(), 1 + count % 2, count, a.data());
    plain.between(x.data(), y.data(), 1 + count % 2, count, b.data());
    ASSERT_EQ(std::memcmp(a.data(), b.data(), static_cast<size_t>(count)), 0) << count;
    for (const bool vertical : {false, true}) {
      std::vector<uint16_t> fast_columns(room), plain_columns(room);
      fast.columns(x.data(), vertical ? y.data() : nullptr, count, fast_columns.data() + 32);
      plain.columns(x.data(), vertical ? y.data() : nullptr, count, plain_columns.data() + 32);
      for (auto* columns : {&fast_columns, &plain_columns}) {
        (*columns)[31] = (*columns)[32];
        (*columns)[32 + static_cast<size_t>(count)] = (*columns)[31 + static_cast<size_t>(count)];
      }
      fast.widen(fast_columns.data() + 32, count, vertical, a.data());
      plain.widen(plain_columns.data() + 32, count, vertical, b.data());
      ASSERT_EQ(std::memcmp(a.data(), b.data(), 2 * static_cast<size_t>(count)), 0) << count;
    }
    std::vector<uint8_t> rgb(3 * static_cast<size_t>(count) + 1, 0xee), twin = rgb;
    fast.ycc_to_rgb(x.data(), y.data(), z.data(), count, rgb.data());
    plain.ycc_to_rgb(x.data(), y.data(), z.data(), count, twin.data());
    ASSERT_EQ(rgb, twin) << count;
    ASSERT_EQ(rgb.back(), 0xee) << "wrote past the row";
  }
}

TEST(Coefficients, RowKernelsEqualTheirScalarTwins) {
  augment::on_every_target([] { expect_rows_of_the_twins(coef::best_kernels()); });
}

/// As libjpeg's tables (jdcolor.c): JFIF's factors with 16 bits behind the point, rounded.
std::array<uint8_t, 3> libjpegs_colour(int y, int cb, int cr) {
  constexpr int kHalf = 1 << 15;
  const auto clamped = [](int value) { return static_cast<uint8_t>(std::clamp(value, 0, 255)); };
  const int blue = cb - 128, red = cr - 128;
  return {clamped(y + ((91881 * red + kHalf) >> 16)),
          clamped(y + ((-22554 * blue - 46802 * red + kHalf) >> 16)),
          clamped(y + ((116130 * blue + kHalf) >> 16))};
}

void expect_libjpegs_colours(const coef::Kernels& kernels) {
  std::vector<uint8_t> y(256 + coef::kRowPadding), cb(y.size()), cr(y.size()), got(768), expected(768);
  for (int i = 0; i < 256; ++i) cr[static_cast<size_t>(i)] = static_cast<uint8_t>(i);
  for (int luma = 0; luma < 256; ++luma) {
    for (int blue = 0; blue < 256; ++blue) {
      std::fill(y.begin(), y.end(), static_cast<uint8_t>(luma));
      std::fill(cb.begin(), cb.end(), static_cast<uint8_t>(blue));
      kernels.ycc_to_rgb(y.data(), cb.data(), cr.data(), 256, got.data());
      for (int red = 0; red < 256; ++red)
        std::ranges::copy(libjpegs_colour(luma, blue, red), expected.begin() + 3 * red);
      ASSERT_EQ(got, expected) << luma << " " << blue;
    }
  }
}

TEST(Coefficients, ColoursOfEveryTripleAreLibjpegs) {
  expect_libjpegs_colours(coef::scalar_kernels());
  augment::on_every_target([] { expect_libjpegs_colours(coef::best_kernels()); });
}

TEST(Coefficients, DamagedRecordsNeverCrash) {
  RandomStream random(11, 0);
  Pixels image = drawing(150, 90, 3, 1, 120);
  const std::vector<std::byte> jpeg = *encode_jpeg(image.view(), 85);
  const std::array<std::vector<std::byte>, 2> good = {*encode_coefficients(jpeg, {}, kind_of(0)),
                                                      *encode_coefficients(jpeg, {}, kind_of(1))};
  ImageDecoder decoder;
  int refused = 0;
  for (int i = 0; i < 8000; ++i) {
    std::vector<std::byte> bad = good[static_cast<size_t>(i / 4000)];
    const uint32_t flips = 1 + random.below(6);
    for (uint32_t flip = 0; flip < flips; ++flip) {
      const size_t at = i % 4 == 0 ? random.below(200) : random.below(static_cast<uint32_t>(bad.size()));
      bad[at] = static_cast<std::byte>(random.below(256));
    }
    if (i % 5 == 0) bad.resize(random.below(static_cast<uint32_t>(bad.size())));
    std::vector<std::byte> exact(bad);  // no slack behind it: asan sees a read past the end
    exact.shrink_to_fit();
    const auto info = probe_image(exact);
    if (!info.ok() || int64_t{info->width} * info->height > 100'000) {
      ++refused;
      continue;
    }
    Pixels pixels(info->width, info->height, 3);
    if (!decoder.decode(exact, all_of(pixels), pixels.view()).ok()) ++refused;
    (void)coefficients_to_jpeg(exact);
  }
  EXPECT_GT(refused, 1000);
}

// The head that a record keeps may be corrupt: of Huffman tables there are four of each class.
TEST(Coefficients, AHeadWithATableThatThereIsNotIsRefused) {
  const std::vector<std::byte> jpeg = *encode_jpeg(drawing(24, 16, 3, 5, 9).view(), 85);
  const coef::Frame frame = value_or_throw(coef::parse_frame(*encode_coefficients(jpeg)));
  const std::optional<coef::SourceScan> scan = coef::find_scan(jpeg);
  ASSERT_TRUE(scan.has_value());
  std::vector<std::byte> head(jpeg.begin(), jpeg.begin() + static_cast<ptrdiff_t>(scan->head_bytes));
  EXPECT_TRUE(coef::SourceScanWriter::begin(frame, head).has_value());
  JpegSegments segments(jpeg);
  JpegSegments::Segment tables;
  while (segments.next(&tables) && tables.marker != kHuffmanTables) continue;
  ASSERT_EQ(tables.marker, kHuffmanTables);
  std::byte& name = head[tables.begin + 4];  // behind marker and length: class, then number
  for (const int wrong : {0x04, 0x14, 0x20}) {
    name = static_cast<std::byte>(wrong);
    EXPECT_FALSE(coef::SourceScanWriter::begin(frame, head).has_value()) << wrong;
  }
}

// Found by fuzzing: it decodes, but no JPEG can be written with what it decodes to.
TEST(Coefficients, WhatCouldNotBeExportedStaysAJpeg) {
  const std::vector<std::byte> jpeg =
      read_test_file(test_file("fuzz/corpus/image/coefficient_out_of_range.jpg"));
  const auto record = encode_coefficients(jpeg);
  ASSERT_FALSE(record.ok());
  EXPECT_NE(record.status().message().find("out of range"), std::string::npos) << record.status().message();
}

TEST(Coefficients, WhateverStandsBehindTheImageComesBack) {
  std::vector<std::byte> jpeg = read_image("rgb_420.jpg");
  jpeg.resize(jpeg.size() + (size_t{65} << 20));
  const auto record = encode_coefficients(jpeg);
  ASSERT_TRUE(record.ok()) << record.status().message();
  const auto back = coefficients_to_jpeg(*record);
  ASSERT_TRUE(back.ok()) << back.status().message();
  EXPECT_TRUE(*back == jpeg);
}

TEST(Coefficients, AJpegWithMoreAroundItThanCanBeReadBackStaysAJpeg) {
  const std::vector<std::byte> jpeg = read_image("rgb_420.jpg");
  // Zeros of calloc take no memory until they are touched.
  const size_t size = coef::kMostHeadBytes + 1;
  const std::unique_ptr<void, decltype(&std::free)> memory(std::calloc(size, 1), std::free);
  ASSERT_NE(memory, nullptr);
  std::memcpy(memory.get(), jpeg.data(), jpeg.size());
  const auto record = encode_coefficients({static_cast<const std::byte*>(memory.get()), size});
  EXPECT_EQ(record.status().code(), ErrorCode::kUnsupported) << record.status().message();
}

/// Wide values, a whole range of widths, groups of eight large values: what images seldom have.
std::vector<std::array<int16_t, 64>> rough_blocks(int count, RandomStream& random) {
  std::vector<std::array<int16_t, 64>> blocks(static_cast<size_t>(count));
  for (auto& block : blocks) {
    block.fill(0);
    const uint32_t share = random.below(5);
    const int bits = static_cast<int>(random.below(16));
    for (int16_t& value : block) {
      if (random.below(4) >= share) continue;
      value = static_cast<int16_t>(static_cast<int>(random.below(2u << bits)) - (1 << bits));
    }
    if (random.below(4) == 0) std::fill_n(block.begin(), 8, int16_t{127});
  }
  return blocks;
}

void expect_same_blocks(const coef::TileBlocks& a, const coef::TileBlocks& b, int begin, int end) {
  for (int block = begin; block < end; ++block) {
    int16_t x[64], y[64];
    coef::natural_coefficients(a, block, x);
    coef::natural_coefficients(b, block, y);
    ASSERT_EQ(std::memcmp(x, y, sizeof x), 0) << "block " << block;
  }
}

std::vector<const coef::PackedReader*> packed_readers() {
  std::vector<const coef::PackedReader*> readers = {&coef::portable_packed_reader()};
  for (const coef::PackedReader* reader : {coef::bmi2_packed_reader(), coef::avx512_packed_reader()})
    if (reader != nullptr) readers.push_back(reader);
  return readers;
}

TEST(Coefficients, ABlockIsTurnedIntoZigzagOrder) {
  RandomStream random(15, 0);
  const auto expect_zigzag = [](const std::array<int16_t, 64>& natural, const coef::ZigzagBlock& block) {
    for (size_t i = 0; i < 64; ++i) {
      const int value = natural[coef::kZigzag[i]];
      const int coded = value == 0 || i == 0 ? 0 : 2 * (std::abs(value) - 1) + (value < 0 ? 1 : 0);
      ASSERT_EQ(block.values[i], value);
      ASSERT_EQ(block.coded[i], static_cast<uint16_t>(coded));
      ASSERT_EQ(block.nonzero >> i & 1, value != 0 ? 1u : 0u);
    }
  };
  for (int round = 0; round < 300; ++round) {
    for (const auto& natural : rough_blocks(coef::kMaxTileBlocks, random)) {
      expect_zigzag(natural, coef::ZigzagBlock(natural.data()));
      for (const coef::ZigzagFill fill : coef::zigzag_fills()) {
        coef::ZigzagBlock block;
        fill(natural.data(), block);
        block.coded[0] = 0;  // the DC is coded by itself
        expect_zigzag(natural, block);
      }
      if (HasFatalFailure()) return;
    }
  }
}

// Bytes at rest: what datasets hold, and older and newer releases read.
TEST(Coefficients, TilesAreWrittenAsTheyAlwaysWere) {
  RandomStream random(17, 0);
  coef::BitWriter writer;
  std::vector<std::byte> packed, coded;
  for (int round = 0; round < 300; ++round) {
    const auto blocks = rough_blocks(1 + round % coef::kMaxTileBlocks, random);
    std::vector<coef::ZigzagBlock> zigzag;
    for (const auto& natural : blocks) zigzag.emplace_back(natural.data());
    coef::put_packed_tile(zigzag, writer);
    writer.take(packed);
    coef::TileWriter tile(round % 2, writer);
    for (const coef::ZigzagBlock& block : zigzag) tile.add(block);
    writer.take(coded);
  }
  const auto hash = [](const std::vector<std::byte>& bytes) {
    return fnv1a({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
  };
  EXPECT_EQ(hash(packed), 0xb600f4e0b16a8299u) << packed.size();
  EXPECT_EQ(hash(coded), 0xa0f2edf12b74d856u) << coded.size();
}

TEST(Coefficients, PackedTilesGiveTheirBlocksBack) {
  RandomStream random(13, 0);
  const auto read = std::make_unique<coef::TileBlocks>();
  const auto other = std::make_unique<coef::TileBlocks>();
  for (int round = 0; round < 2000; ++round) {
    const int count = 1 + static_cast<int>(random.below(coef::kMaxTileBlocks));
    const auto blocks = rough_blocks(count, random);
    std::vector<const int16_t*> pointers;
    for (const auto& block : blocks) pointers.push_back(block.data());
    const std::vector<coef::ZigzagBlock> zigzag(pointers.begin(), pointers.end());
    coef::BitWriter writer;
    coef::put_packed_tile(zigzag, writer);
    std::vector<std::byte> bytes;
    const size_t size = writer.take(bytes);
    std::vector<std::byte> portable;
    coef::put_packed_tile_portable(zigzag, writer);
    writer.take(portable);
    ASSERT_EQ(bytes, portable);
    bytes.resize(size + coef::kTilePadding);
    const coef::Tile whole{bytes.data(), size, coef::TileForm::kPacked, 0, count, 0, count};
    coef::Tile part = whole;
    part.begin = static_cast<int>(random.below(static_cast<uint32_t>(count)));
    part.end = part.begin + 1 + static_cast<int>(random.below(static_cast<uint32_t>(count - part.begin)));
    for (const coef::PackedReader* reader : packed_readers()) {
      ASSERT_TRUE(reader->one(whole, *read));
      for (int i = 0; i < count; ++i) {
        int16_t back[64];
        coef::natural_coefficients(*read, i, back);
        ASSERT_EQ(std::memcmp(back, pointers[static_cast<size_t>(i)], sizeof back), 0) << "block " << i;
      }
      ASSERT_TRUE(reader->one(part, *other));
      expect_same_blocks(*read, *other, part.begin, part.end);
      ASSERT_TRUE(round % 2 == 0 ? reader->two(part, *other, whole, *read)
                                 : reader->two(whole, *read, part, *other));
      expect_same_blocks(*read, *other, part.begin, part.end);
      coef::Tile cut = whole;
      cut.size = size - 1;
      ASSERT_FALSE(reader->one(cut, *other));
    }
  }
}

TEST(Coefficients, AllWaysToReadDamagedPackedTilesAgree) {
  RandomStream random(14, 0);
  const auto a = std::make_unique<coef::TileBlocks>();
  const auto b = std::make_unique<coef::TileBlocks>();
  int fine = 0;
  for (int i = 0; i < 6000; ++i) {
    std::vector<std::byte> bytes(40 + random.below(600) + coef::kTilePadding);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.below(256));
    const size_t size = bytes.size() - coef::kTilePadding;
    const coef::Tile tile{bytes.data(), size, coef::TileForm::kPacked, 0, 8, i % 3, i % 3 + 1 + i % 5};
    const bool expected = coef::portable_packed_reader().one(tile, *a);
    fine += expected ? 1 : 0;
    for (const coef::PackedReader* reader : packed_readers()) {
      ASSERT_EQ(reader->one(tile, *b), expected);
      if (expected) expect_same_blocks(*a, *b, tile.begin, tile.end);
    }
  }
  EXPECT_GT(fine, 1000);
}

TEST(Coefficients, AllWaysToReadACodedTileAgree) {
  RandomStream random(12, 0);
  const auto a = std::make_unique<coef::TileBlocks>();
  const auto b = std::make_unique<coef::TileBlocks>();
  const auto c = std::make_unique<coef::TileBlocks>();
  const auto d = std::make_unique<coef::TileBlocks>();
  for (int i = 0; i < 3000; ++i) {
    std::vector<std::byte> bytes(40 + random.below(400) + coef::kTilePadding);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.below(256));
    const size_t size = bytes.size() - coef::kTilePadding;
    const bool whole = i % 2 == 0;
    const coef::Tile tile{
        bytes.data(), size, coef::TileForm::kCoded, i % 3 == 0 ? 1 : 0, whole ? 4 : 5, 0, 4};
    const bool fast = coef::read_tile(tile, *a);
    ASSERT_EQ(fast, coef::read_tile_portable(tile, *b));
    if (fast) {
      coef::Tile shorter = tile;
      shorter.end = 2;
      ASSERT_TRUE(coef::read_tiles(i % 2 == 0 ? tile : shorter, *c, i % 2 == 0 ? shorter : tile, *d));
    }
    if (!fast) continue;
    for (int block = 0; block < 4; ++block) {
      int16_t x[64], y[64];
      coef::natural_coefficients(*a, block, x);
      coef::natural_coefficients(*b, block, y);
      ASSERT_EQ(std::memcmp(x, y, sizeof x), 0);
      coef::natural_coefficients(i % 2 == 0 ? *c : *d, block, y);
      ASSERT_EQ(std::memcmp(x, y, sizeof x), 0);
    }
  }
}

}  // namespace
}  // namespace dlpipe::data
