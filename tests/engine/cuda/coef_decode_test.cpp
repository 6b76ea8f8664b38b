// Crops from coefficient tiles over the simulated grid (engine/cuda/coef/coef_decode.h), against the codec
// and the resize on the host: the same bytes, and the same opinion of corrupt tiles.
#include "engine/cuda/coef/coef_decode.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "augment/resize.h"
#include "dlpipe/codec.h"
#include "dlpipe/random.h"
#include "engine/cuda/coef/coef_kernels.h"
#include "io/data/codec/coef/jpeg_coefficients.h"
#include "io/data/codec/coef/tile_selection.h"
#include "tests/io/data/codec/image_files.h"
#include "tests/io/data/codec/written_jpegs.h"

namespace dlpipe::engine::cuda {
namespace {

using data::CoefCrop;
using data::Pixels;

constexpr uint8_t kUntouched = 0xa5;

/// What a slot and a device do: tile memory of exactly as many bytes as are used, so that AddressSanitizer sees
/// every step beside it, scratch, and pixels with gaps between samples.
class CoefSlot {
 public:
  explicit CoefSlot(size_t capacity) : capacity_(capacity), samples_(capacity) {
    tiles_.resize(coef::coef_head_bytes(capacity) / sizeof(uint64_t));
    for (coef::CoefSample& sample : samples_) sample = {};
  }

  /// False: the record isn't for a GPU, or corrupt.
  Status add(size_t i, std::span<const std::byte> record, const CoefCrop& crop) {
    coef::CoefSample& sample = samples_[i];
    const Result<size_t> bytes = selector_.select(record, crop, sample);
    if (!bytes.ok()) {
      sample = {};
      return bytes.status();
    }
    sample.begin = tiles_.size() * sizeof(uint64_t);
    tiles_.resize(tiles_.size() + *bytes / sizeof(uint64_t));
    selector_.copy({data() + sample.begin, *bytes});
    sample.out = pixels_.size() + 5;
    pixels_.resize(sample.out + static_cast<size_t>(crop.window.width * crop.window.height * crop.channels),
                   kUntouched);
    return {};
  }

  void decode() {
    pixels_.resize(pixels_.size() + 5, kUntouched);
    const coef::CoefHead head = coef::coef_head(data(), capacity_);
    std::ranges::copy(samples_, head.samples.begin());
    const Result<coef::CoefWork> work = coef::number_coef_blocks(head);
    ASSERT_TRUE(work.ok());
    std::ranges::copy(head.samples, samples_.begin());
    std::vector<uint64_t> scratch(work->scratch_bytes / sizeof(uint64_t), 0xabcdabcdabcdabcd);
    statuses_.assign(capacity_, -1);
    decode_coefficients({data(), static_cast<int64_t>(capacity_), *work,
                         reinterpret_cast<std::byte*>(scratch.data()), pixels_.data(), statuses_.data()});
    expect_gaps();
  }

  std::vector<uint8_t> pixels(size_t i, size_t size) const {
    const auto begin = pixels_.begin() + static_cast<ptrdiff_t>(samples_[i].out);
    return {begin, begin + static_cast<ptrdiff_t>(size)};
  }
  int status(size_t i) const { return statuses_[i]; }
  std::span<std::byte> part(size_t i) {
    return {data() + samples_[i].begin, static_cast<size_t>(samples_[i].tile_bytes)};
  }
  const coef::CoefSample& sample(size_t i) const { return samples_[i]; }
  bool has(size_t i) const { return samples_[i].components != 0; }

 private:
  std::byte* data() { return reinterpret_cast<std::byte*>(tiles_.data()); }

  void expect_gaps() {
    std::vector<uint8_t> all = pixels_;
    for (const coef::CoefSample& sample : samples_) {
      const auto size = static_cast<ptrdiff_t>(sample.across.count) * sample.down.count * sample.channels;
      std::fill_n(all.begin() + static_cast<ptrdiff_t>(sample.out), size, kUntouched);
    }
    EXPECT_TRUE(std::ranges::all_of(all, [](uint8_t byte) { return byte == kUntouched; }))
        << "written beside a sample";
  }

  size_t capacity_;
  data::TileSelector selector_;
  std::vector<coef::CoefSample> samples_;
  std::vector<uint64_t> tiles_;
  std::vector<uint8_t> pixels_;
  std::vector<int32_t> statuses_;
};

/// The same on the host.
Result<Pixels> decoded(std::span<const std::byte> record, const CoefCrop& crop) {
  Pixels source(crop.region.width, crop.region.height, crop.channels);
  const data::ImageInfo info = *data::probe_image(record);
  const Status status = data::ImageDecoder().decode_oriented(record, info, crop.region, source.view());
  if (!status.ok()) return status;
  augment::ResizeGeometry geometry =
      augment::whole_resize(crop.source_width, crop.source_height, crop.out_width, crop.out_height);
  geometry.window = crop.window;
  Pixels out(crop.window.width, crop.window.height, crop.channels);
  std::vector<std::byte> work;
  augment::resize(geometry, source.view(), out.view(), crop.flip, work);
  return out;
}

int below(RandomStream& random, int n) {
  return static_cast<int>(random.below(static_cast<uint32_t>(n)));
}

struct Size {
  int width;
  int height;
};
/// As the image is seen.
Size size_of(std::span<const std::byte> record) {
  const data::ImageInfo info = *data::probe_image(record);
  if (swaps_axes(info.orientation)) return {info.height, info.width};
  return {info.width, info.height};
}

/// Any part of an image: often at an edge, as it is, smaller or larger; one in four through a window.
CoefCrop random_crop(const Size& of, RandomStream& random) {
  const auto part = [&](int size, int& begin) {
    const int length = 1 + below(random, size);
    begin = below(random, 3) == 0 ? 0 : below(random, size - length + 1);
    if (below(random, 3) == 0) begin = size - length;
    return length;
  };
  Region region;
  region.width = part(of.width, region.x);
  region.height = part(of.height, region.y);
  const bool flip = below(random, 2) == 0;
  const int channels = below(random, 4) == 0 ? 1 : 3;
  if (below(random, 5) == 0) return data::whole_crop(region, region.width, region.height, flip, channels);
  CoefCrop crop = data::whole_crop(region, 1 + below(random, 90), 1 + below(random, 70), flip, channels);
  if (below(random, 4) != 0) return crop;
  augment::ResizeGeometry geometry =
      augment::whole_resize(of.width, of.height, crop.out_width, crop.out_height);
  geometry.window.width = part(crop.out_width, geometry.window.x);
  geometry.window.height = part(crop.out_height, geometry.window.y);
  crop.source_width = of.width;
  crop.source_height = of.height;
  crop.window = geometry.window;
  crop.region = augment::resize_support(geometry);
  return crop;
}

std::string text_of(const CoefCrop& crop) {
  const auto of = [](const Region& r) {
    return std::to_string(r.width) + "x" + std::to_string(r.height) + "+" + std::to_string(r.x) + "+" +
           std::to_string(r.y);
  };
  return of(crop.region) + " of " + std::to_string(crop.source_width) + "x" +
         std::to_string(crop.source_height) + " to " + of(crop.window) + " of " +
         std::to_string(crop.out_width) + "x" + std::to_string(crop.out_height) +
         (crop.flip ? ", flipped" : "") + ", channels " + std::to_string(crop.channels);
}

/// A batch of crops of one record, with a place in its middle that the host decodes.
void expect_the_hosts_pixels(std::span<const std::byte> record, size_t count, RandomStream& random) {
  const auto place = [&](size_t i) { return i < count / 2 ? i : i + 1; };
  std::vector<CoefCrop> crops;
  CoefSlot slot(count + 1);
  for (size_t i = 0; i < count; ++i) {
    crops.push_back(random_crop(size_of(record), random));
    const Status status = slot.add(place(i), record, crops.back());
    ASSERT_TRUE(status.ok()) << status.message() << " " << text_of(crops.back());
  }
  slot.decode();
  for (size_t i = 0; i < count; ++i) {
    const Result<Pixels> expected = decoded(record, crops[i]);
    ASSERT_TRUE(expected.ok());
    EXPECT_EQ(slot.status(place(i)), 0);
    ASSERT_EQ(slot.pixels(place(i), expected->bytes.size()), expected->bytes) << text_of(crops[i]);
  }
  EXPECT_EQ(slot.status(count / 2), 0);
}

data::TileKind packed(int i) {
  return {data::coef::TileForm::kPacked, 4 << i % 3};
}

TEST(CoefDecode, GoldenJpegsGiveTheHostsPixels) {
  RandomStream random(1, 0);
  int images = 0;
  for (const data::Golden& golden : data::golden_images()) {
    if (!golden.name.ends_with(".jpg")) continue;
    SCOPED_TRACE(golden.name);
    const auto record = data::encode_coefficients(data::read_image(golden.name), {}, packed(images++));
    ASSERT_TRUE(record.ok());
    expect_the_hosts_pixels(*record, 16, random);
  }
  EXPECT_GE(images, 15);
}

TEST(CoefDecode, EverySampling) {
  RandomStream random(2, 0);
  int number = 0;
  for (const auto& [h, v] : {std::pair{1, 1}, {2, 1}, {1, 2}, {2, 2}, {4, 1}, {1, 4}, {4, 2}, {2, 4}}) {
    for (const bool noise : {false, true}) {
      SCOPED_TRACE(std::to_string(h) + "x" + std::to_string(v));
      const std::vector<std::byte> jpeg =
          data::written({.width = 157, .height = 91, .h = h, .v = v, .noise = noise});
      expect_the_hosts_pixels(*data::encode_coefficients(jpeg, {}, packed(number++)), 12, random);
    }
  }
}

TEST(CoefDecode, SmallAndOddSizes) {
  RandomStream random(3, 0);
  for (int width = 1; width < 20; ++width) {
    for (const int height : {1, 2, 7, 8, 9, 16, 17}) {
      const data::Hard hard{.width = width, .height = height, .channels = width % 4 == 0 ? 1 : 3};
      SCOPED_TRACE(std::to_string(width) + "x" + std::to_string(height));
      expect_the_hosts_pixels(*data::encode_coefficients(data::written(hard), {}, packed(width)), 3, random);
    }
  }
}

// Coefficients of all widths, DCs that don't fit their short form, products that leave 16 bits.
TEST(CoefDecode, ExtremeQuantisers) {
  RandomStream random(4, 0);
  for (const int quant : {1, 2, 255, 2000, 32'767}) {
    for (const bool noise : {false, true}) {
      for (const data::Hard& hard : {data::Hard{.dc_quant = quant, .ac_quant = quant, .noise = noise},
                                     data::Hard{.dc_quant = 1, .ac_quant = quant, .noise = noise},
                                     data::Hard{.dc_quant = quant, .ac_quant = 1, .noise = noise}})
        expect_the_hosts_pixels(*data::encode_coefficients(data::written(hard), {}, packed(quant)), 3,
                                random);
    }
  }
}

TEST(CoefDecode, ALargeShrinkingCropAndALargeGrowingOne) {
  const std::vector<std::byte> record =
      *data::encode_coefficients(data::written({.width = 900, .height = 300, .noise = false}));
  CoefSlot slot(3);
  const CoefCrop crops[] = {data::whole_crop({0, 0, 900, 300}, 7, 3, true),
                            data::whole_crop({0, 0, 900, 300}, 224, 224, false),
                            data::whole_crop({897, 295, 3, 5}, 224, 224, true)};
  for (size_t i = 0; i < 3; ++i) ASSERT_TRUE(slot.add(i, record, crops[i]).ok());
  slot.decode();
  for (size_t i = 0; i < 3; ++i) {
    const Result<Pixels> expected = decoded(record, crops[i]);
    ASSERT_EQ(slot.pixels(i, expected->bytes.size()), expected->bytes) << text_of(crops[i]);
  }
}

TEST(CoefDecode, WhatIsNotForAGpuIsSaidBefore) {
  const std::vector<std::byte> jpeg = data::written({});
  const CoefCrop crop = data::whole_crop({3, 5, 20, 30}, 8, 9, false);
  CoefSlot slot(1);
  const std::vector<std::byte> coded = *data::encode_coefficients(jpeg, {}, data::kDenseTiles);
  EXPECT_EQ(slot.add(0, coded, crop).code(), ErrorCode::kUnsupported);
  EXPECT_EQ(slot.add(0, jpeg, crop).code(), ErrorCode::kUnsupported);
  EXPECT_EQ(slot.add(0, {}, crop).code(), ErrorCode::kUnsupported);
  const std::vector<std::byte> record = *data::encode_coefficients(jpeg, {}, data::kFastTiles);
  EXPECT_EQ(slot.add(0, std::span(record).first(300), crop).code(), ErrorCode::kCorrupt);
  for (const Region& outside :
       {Region{-1, 0, 4, 4}, {0, 0, 65, 4}, {60, 0, 5, 4}, {0, 48, 1, 1}, {0, 0, 0, 4}})
    EXPECT_EQ(slot.add(0, record, data::whole_crop(outside, 8, 9, false)).code(), ErrorCode::kMisuse);
  CoefCrop wrong = crop;
  wrong.window = {1, 0, 7, 9};  // needs less than the region
  EXPECT_EQ(slot.add(0, record, wrong).code(), ErrorCode::kMisuse);
  EXPECT_TRUE(slot.add(0, record, crop).ok());
}

/// A record with bits turned over in its tiles.
std::vector<std::byte> damaged(std::vector<std::byte> record, RandomStream& random) {
  const size_t first = 200;  // behind the tables of `written`'s images
  for (int i = below(random, 4); i >= 0; --i) {
    const size_t at = first + random.below(static_cast<uint32_t>(record.size() - first));
    record[at] ^= static_cast<std::byte>(1u << random.below(8));
  }
  return record;
}

TEST(CoefDecode, DamagedTilesAreSeenWhereTheHostSeesThem) {
  RandomStream random(6, 0);
  int good = 0;
  int bad = 0;
  for (int image = 0; image < 6; ++image) {
    const std::vector<std::byte> whole =
        *data::encode_coefficients(data::written({.width = 120 + image,
                                                  .height = 61,
                                                  .h = 1 + image % 2,
                                                  .dc_quant = 1,
                                                  .ac_quant = image % 3 == 0 ? 40 : 1}),
                                   {}, packed(image));
    constexpr size_t kRounds = 60;
    CoefSlot slot(kRounds);
    std::vector<std::vector<std::byte>> records;
    std::vector<CoefCrop> crops;
    for (size_t i = 0; i < kRounds; ++i) {
      records.push_back(damaged(whole, random));
      crops.push_back(random_crop({120 + image, 61}, random));
      static_cast<void>(slot.add(i, records[i], crops[i]));
    }
    slot.decode();
    for (size_t i = 0; i < kRounds; ++i) {
      if (!slot.has(i)) continue;
      const Result<Pixels> expected = decoded(records[i], crops[i]);
      ASSERT_EQ(slot.status(i), expected.ok() ? 0 : 1) << "round " << i << ", " << text_of(crops[i]);
      ++(expected.ok() ? good : bad);
      if (expected.ok()) {
        ASSERT_EQ(slot.pixels(i, expected->bytes.size()), expected->bytes) << text_of(crops[i]);
      }
    }
  }
  EXPECT_GT(good, 30);
  EXPECT_GT(bad, 30);
}

// Tiles and their ranges of random bits: AddressSanitizer and the gaps say whether anything was left.
TEST(CoefDecode, HostileTilesStayWithinTheirRanges) {
  RandomStream random(7, 0);
  const std::vector<std::byte> record =
      *data::encode_coefficients(data::written({.width = 203, .height = 77}), {}, data::kFastTiles);
  int seen = 0;
  for (int round = 0; round < 40; ++round) {
    constexpr size_t kCount = 4;
    CoefSlot slot(kCount);
    for (size_t i = 0; i < kCount; ++i) ASSERT_TRUE(slot.add(i, record, random_crop({203, 77}, random)).ok());
    for (size_t i = 0; i < kCount; ++i) {
      const std::span<std::byte> part = slot.part(i);
      const size_t table = static_cast<size_t>(slot.sample(i).tile_count) * sizeof(coef::TileRange);
      const size_t first = round % 2 == 0 ? table : 0;
      for (std::byte& byte : part.subspan(first)) byte = static_cast<std::byte>(random.below(256));
      // Ranges that look possible.
      for (size_t at = 0; first == 0 && round % 4 == 1 && at < table; at += 4) {
        const uint32_t number = random.below(static_cast<uint32_t>(part.size()) + 8);
        std::memcpy(part.data() + at, &number, sizeof number);
      }
    }
    slot.decode();
    for (size_t i = 0; i < kCount; ++i) seen += slot.status(i);
  }
  EXPECT_GT(seen, 140) << "of 160: a crop of one block may look whole";
}

}  // namespace
}  // namespace dlpipe::engine::cuda
