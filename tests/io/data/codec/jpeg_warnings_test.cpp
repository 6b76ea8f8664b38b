// JPEGs of which libjpeg warns though every pixel is there, and those of which it warns because some are not. Whatever decodes an
// image says the same of it, and gives the same pixels.
#include <gtest/gtest.h>

#include <cstring>

#include "dlpipe/codec.h"
#include "dlpipe/random.h"
#include "io/data/codec/coef/jpeg_coefficients.h"
#include "io/data/codec/restart.h"
#include "tests/io/data/codec/image_files.h"
#include "tests/io/data/codec/jpeg_surgery.h"

namespace dlpipe::data {
namespace {

using Bytes = std::vector<std::byte>;

constexpr uint32_t kJfif = 0xe0;

Bytes bytes_of(const std::string& text) {
  const auto* first = reinterpret_cast<const std::byte*>(text.data());
  return {first, first + text.size()};
}
Bytes with(Bytes jpeg, size_t at, const Bytes& piece) {
  jpeg.insert(jpeg.begin() + static_cast<ptrdiff_t>(at), piece.begin(), piece.end());
  return jpeg;
}
Bytes with_byte(Bytes jpeg, size_t at, int value) {
  jpeg[at] = static_cast<std::byte>(value);
  return jpeg;
}
Bytes adobe(int transform) {
  return bytes_of(std::string("\xff\xee\0\x0e", 4) + "Adobe" + std::string("\0\x64\0\0\0\0", 6) +
                  static_cast<char>(transform));
}
size_t scan_end(const Bytes& jpeg) {
  return jpeg.size() - 2;
}
size_t begin_of(const Bytes& jpeg, uint32_t marker) {
  JpegSegments segments(jpeg);
  for (JpegSegments::Segment segment; segments.next(&segment);)
    if (segment.marker == marker) return segment.begin;
  ADD_FAILURE() << "no such segment";
  return 0;
}

Result<Pixels> decoded_rgb(std::span<const std::byte> bytes, const Region& region) {
  Pixels pixels(region.width, region.height, 3);
  const Status status = ImageDecoder().decode(bytes, region, pixels.view());
  if (!status.ok()) return status;
  return pixels;
}

void expect_part(const Pixels& whole, std::span<const std::byte> bytes, const Region& part) {
  const auto pixels = decoded_rgb(bytes, part);
  ASSERT_TRUE(pixels.ok()) << pixels.status().message();
  for (int y = 0; y < part.height; ++y)
    ASSERT_EQ(std::memcmp(pixels->bytes.data() + ptrdiff_t{y} * part.width * 3,
                          whole.bytes.data() + (ptrdiff_t{part.y + y} * whole.width + part.x) * 3,
                          static_cast<size_t>(part.width) * 3),
              0)
        << "row " << y;
}

/// Whole, in parts, as either record of coefficients, as the JPEG that comes back from it, and with a restart index.
void expect_everywhere(const Bytes& jpeg, const Pixels& pixels) {
  const Region all{0, 0, pixels.width, pixels.height};
  const Region part{3, 5, pixels.width / 2, pixels.height / 3};
  const auto whole = decoded_rgb(jpeg, all);
  ASSERT_TRUE(whole.ok()) << whole.status().message();
  EXPECT_EQ(whole->bytes, pixels.bytes);
  expect_part(pixels, jpeg, part);
  for (const TileKind kind : {kFastTiles, kDenseTiles}) {
    const auto record = encode_coefficients(jpeg, {}, kind);
    ASSERT_TRUE(record.ok()) << record.status().message();
    expect_part(pixels, *record, all);
    expect_part(pixels, *record, part);
    const auto back = coefficients_to_jpeg(*record);
    ASSERT_TRUE(back.ok()) << back.status().message();
    expect_part(pixels, *back, all);
  }
  const auto indexed = encode_restart(jpeg);
  ASSERT_TRUE(indexed.ok()) << indexed.status().message();
  expect_part(pixels, *indexed, all);
  expect_part(pixels, *indexed, part);
}

void expect_damaged(const Bytes& jpeg, const Region& all) {
  EXPECT_EQ(decoded_rgb(jpeg, all).status().code(), ErrorCode::kCorrupt);
  EXPECT_FALSE(encode_coefficients(jpeg, {}, kFastTiles).ok());
  EXPECT_FALSE(encode_coefficients(jpeg, {}, kDenseTiles).ok());
  EXPECT_FALSE(encode_restart(jpeg).ok());
}

TEST(JpegWarnings, OddHeadersLeaveEveryPixelAsItIs) {
  const Bytes jpeg = read_image("rgb_420.jpg");
  constexpr size_t kMajor = 11;  // of the revision, in the first segment
  const Pixels pixels = value_or_throw(decoded_rgb(jpeg, {0, 0, 53, 37}));
  for (const int major : {0, 2, 255}) expect_everywhere(with_byte(jpeg, kMajor, major), pixels);
  const Bytes bare = without_segments(jpeg, kJfif);
  expect_everywhere(bare, pixels);
  for (const int transform : {1, 2, 68, 255}) expect_everywhere(with(bare, 2, adobe(transform)), pixels);
  const size_t scan = begin_of(jpeg, JpegSegments::kStartOfScan);
  const size_t limits = scan + 4 + 1 + 2 * 3;  // Ss, Se, Ah and Al behind three components
  expect_everywhere(with_byte(jpeg, limits + 1, 0), pixels);
}

TEST(JpegWarnings, AnUnknownTransformOfFourComponentsIsYcck) {
  const Bytes jpeg = read_image("cmyk.jpg");
  constexpr size_t kTransform = 2 + 4 + 11;
  ASSERT_EQ(jpeg[kTransform - 1 - 10], std::byte{'A'});
  const ImageInfo info = value_or_throw(probe_image(jpeg));
  const Region all{0, 0, info.width, info.height};
  const Pixels ycck = value_or_throw(decoded_rgb(with_byte(jpeg, kTransform, 2), all));
  EXPECT_NE(ycck.bytes, value_or_throw(decoded_rgb(jpeg, all)).bytes);
  for (const int transform : {1, 68}) expect_everywhere(with_byte(jpeg, kTransform, transform), ycck);
}

TEST(JpegWarnings, BytesThatBelongToNothingAreNoDamage) {
  for (const char* name : {"rgb_420.jpg", "grey.jpg", "progressive_420.jpg", "restart_420.jpg"}) {
    SCOPED_TRACE(name);
    const Bytes jpeg = read_image(name);
    const ImageInfo info = value_or_throw(probe_image(jpeg));
    const Pixels pixels = value_or_throw(decoded_rgb(jpeg, {0, 0, info.width, info.height}));
    for (const size_t count : {1, 2, 40, 245}) {
      expect_everywhere(with(jpeg, scan_end(jpeg), Bytes(count, std::byte{0x12})), pixels);
      expect_everywhere(with(jpeg, scan_end(jpeg), Bytes(count, std::byte{0})), pixels);
      expect_everywhere(with(jpeg, begin_of(jpeg, kQuantisationTables), Bytes(count, std::byte{0x12})),
                        pixels);
    }
    expect_everywhere(with(jpeg, jpeg.size(), Bytes(100, std::byte{0x12})), pixels);
  }
}

TEST(JpegWarnings, MissingOrWrongBitsAreDamage) {
  for (const char* name : {"rgb_420.jpg", "grey.jpg", "progressive_420.jpg"}) {
    SCOPED_TRACE(name);
    Bytes jpeg = read_image(name);
    const ImageInfo info = value_or_throw(probe_image(jpeg));
    const Region all{0, 0, info.width, info.height};
    jpeg.erase(jpeg.end() - 42, jpeg.end() - 2);  // the image's end comes too early
    expect_damaged(jpeg, all);
    jpeg.resize(jpeg.size() - 2);  // and no mark of it
    expect_damaged(jpeg, all);
  }
  Bytes jpeg = read_image("restart_420.jpg");
  const ImageInfo info = value_or_throw(probe_image(jpeg));
  size_t at = begin_of(jpeg, JpegSegments::kStartOfScan) + 16;
  while (jpeg[at] != std::byte{0xff} || static_cast<unsigned>(jpeg[at + 1]) - 0xd0 > 7) ++at;
  jpeg[at + 1] = std::byte{0xd5};  // a restart that is not the next
  expect_damaged(jpeg, {0, 0, info.width, info.height});
}

}  // namespace
}  // namespace dlpipe::data
