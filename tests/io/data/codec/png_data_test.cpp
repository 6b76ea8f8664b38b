// PNGs made here chunk by chunk: filters, depths and damage that the golden images, which Pillow wrote, don't have.
#include <gtest/gtest.h>
#include <zlib.h>

#include <array>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/codec.h"
#include "dlpipe/random.h"
#include "tests/io/data/codec/image_files.h"

namespace dlpipe::data {
namespace {

using Bytes = std::vector<uint8_t>;

struct Kind {
  int depth, color_type, channels;
};

void append_be32(std::string& to, uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) to.push_back(static_cast<char>(value >> shift));
}

std::string chunk(const std::string& type, std::string_view data) {
  std::string out;
  append_be32(out, static_cast<uint32_t>(data.size()));
  const std::string body = type + std::string(data);
  out += body;
  append_be32(out, static_cast<uint32_t>(crc32(0, reinterpret_cast<const Bytef*>(body.data()),
                                               static_cast<uInt>(body.size()))));
  return out;
}

std::string compressed(const Bytes& rows) {
  uLongf size = compressBound(rows.size());
  std::string out(size, '\0');
  compress(reinterpret_cast<Bytef*>(out.data()), &size, rows.data(), rows.size());
  out.resize(size);
  return out;
}

std::string png(int width, int height, Kind kind, const std::string& data_chunks,
                const std::string& before = {}) {
  std::string header;
  append_be32(header, static_cast<uint32_t>(width));
  append_be32(header, static_cast<uint32_t>(height));
  header += {static_cast<char>(kind.depth), static_cast<char>(kind.color_type), 0, 0, 0};
  return "\x89PNG\r\n\x1a\n" + chunk("IHDR", header) + before + data_chunks + chunk("IEND", "");
}

// Rows with the filters 0, 1, 2, 3, 4 in turn, by the words of PNG's chapter 9.
Bytes filtered(const Bytes& rows, size_t row_bytes, size_t pixel) {
  Bytes out;
  for (size_t y = 0; y * row_bytes < rows.size(); ++y) {
    const auto filter = static_cast<uint8_t>(y % 5);
    out.push_back(filter);
    for (size_t i = 0; i < row_bytes; ++i) {
      const auto at = [&](size_t row, size_t byte) { return int{rows[row * row_bytes + byte]}; };
      const int a = i >= pixel ? at(y, i - pixel) : 0;
      const int b = y > 0 ? at(y - 1, i) : 0;
      const int c = i >= pixel && y > 0 ? at(y - 1, i - pixel) : 0;
      const int p = a + b - c;
      int nearest = c;
      if (std::abs(p - b) <= std::abs(p - c)) nearest = b;
      if (std::abs(p - a) <= std::abs(p - b) && std::abs(p - a) <= std::abs(p - c)) nearest = a;
      const std::array<int, 5> predicted = {0, a, b, (a + b) / 2, nearest};
      out.push_back(static_cast<uint8_t>(at(y, i) - predicted[filter]));
    }
  }
  return out;
}

Bytes noise(size_t count) {
  RandomStream random(7, 1);
  Bytes bytes(count);
  // steps of few values, so that each of Paeth's three answers comes up
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random.below(5) * 60);
  return bytes;
}

struct DecodedPng {
  Status status;
  Bytes pixels;
};

DecodedPng decode_png(const std::string& file, int width, int height, int channels,
                      DecodeLimits limits = {}) {
  Pixels pixels(width, height, channels);
  Status status = ImageDecoder(limits).decode(std::as_bytes(std::span(file)), all_of(pixels), pixels.view());
  return {status, pixels.bytes};
}

TEST(PngData, EveryFilterIsUndoneForEverySizeOfPixel) {
  constexpr int kWidth = 13;
  constexpr int kHeight = 11;
  for (const Kind kind : {Kind{8, 0, 1}, Kind{8, 2, 3}, Kind{8, 4, 2}, Kind{8, 6, 4}, Kind{16, 0, 1},
                          Kind{16, 2, 3}, Kind{16, 6, 4}}) {
    SCOPED_TRACE(testing::Message() << kind.depth << " bits, " << kind.channels << " channels");
    const size_t sample = static_cast<size_t>(kind.depth) / 8;
    const size_t pixel = sample * static_cast<size_t>(kind.channels);
    const Bytes rows = noise(kWidth * kHeight * pixel);
    const std::string file =
        png(kWidth, kHeight, kind, chunk("IDAT", compressed(filtered(rows, kWidth * pixel, pixel))));
    const int colours = kind.channels < 3 ? 1 : 3;
    const DecodedPng got = decode_png(file, kWidth, kHeight, colours);
    ASSERT_TRUE(got.status.ok()) << got.status.message();
    for (size_t i = 0; i < size_t{kWidth} * kHeight; ++i)
      for (size_t c = 0; c < static_cast<size_t>(colours); ++c)
        ASSERT_EQ(got.pixels[i * colours + c], rows[i * pixel + c * sample]) << "pixel " << i;
  }
}

TEST(PngData, TheTransparentColourShowsTheBackground) {
  DecodeLimits limits;
  limits.background = {10, 20, 30};
  const std::string three_rgb(std::string("\0\1\0\2\0\3", 6));
  const Bytes rgb = {0, 1, 2, 3, 1, 2, 4};
  const DecodedPng eight = decode_png(
      png(2, 1, {8, 2, 3}, chunk("IDAT", compressed(rgb)), chunk("tRNS", three_rgb)), 2, 1, 3, limits);
  ASSERT_TRUE(eight.status.ok()) << eight.status.message();
  EXPECT_EQ(eight.pixels, (Bytes{10, 20, 30, 1, 2, 4}));
  const Bytes grey_16 = {0, 5, 6, 5, 7};  // the upper bytes alone are equal
  const DecodedPng sixteen = decode_png(
      png(2, 1, {16, 0, 1}, chunk("IDAT", compressed(grey_16)), chunk("tRNS", "\5\6")), 2, 1, 3, limits);
  ASSERT_TRUE(sixteen.status.ok()) << sixteen.status.message();
  EXPECT_EQ(sixteen.pixels, (Bytes{10, 20, 30, 5, 5, 5}));
  const Bytes bits = {0, 0x40};  // 1, 0, 0 of two bits each
  const DecodedPng two =
      decode_png(png(3, 1, {2, 0, 1}, chunk("IDAT", compressed(bits)), chunk("tRNS", std::string("\0\1", 2))),
                 3, 1, 3, limits);
  ASSERT_TRUE(two.status.ok()) << two.status.message();
  EXPECT_EQ(two.pixels, (Bytes{10, 20, 30, 0, 0, 0, 0, 0, 0}));
}

TEST(PngData, DataMayStandInManyChunks) {
  const Bytes rows = noise(20 * 31);
  const Bytes with_filters = filtered(rows, 31, 1);
  const std::string data = compressed(with_filters);
  std::string chunks = chunk("IDAT", "");
  for (size_t i = 0; i < data.size(); i += 7) chunks += chunk("IDAT", data.substr(i, 7));
  const DecodedPng got = decode_png(png(31, 20, {8, 0, 1}, chunks + chunk("tEXt", "behind")), 31, 20, 1);
  ASSERT_TRUE(got.status.ok()) << got.status.message();
  EXPECT_EQ(got.pixels, rows);
}

TEST(PngData, TheMemoryOfAHugeImageIsGivenBack) {
  constexpr int kSide = 7000;
  const Bytes rows((kSide + 1) * kSide);
  const std::string file = png(kSide, kSide, {8, 0, 1}, chunk("IDAT", compressed(rows)));
  ImageDecoder decoder;
  Pixels corner(3, 3, 1);
  ASSERT_TRUE(decoder.decode(std::as_bytes(std::span(file)), all_of(corner), corner.view()).ok());
  EXPECT_LT(decoder.scratch_bytes(), size_t{1} << 20);
}

TEST(PngData, ExifTurnsAnImageWhereItStandsBeforeThePixels) {
  const std::string six("II*\0\x8\0\0\0\1\0\x12\1\3\0\1\0\0\0\6\0\0\0\0\0\0\0", 26);  // tag 0x112 of IFD 0
  const std::string data = chunk("IDAT", compressed(filtered(noise(40), 4, 1)));
  const auto orientation = [](const std::string& file) {
    return int{value_or_throw(probe_image(std::as_bytes(std::span(file)))).orientation};
  };
  EXPECT_EQ(orientation(png(4, 10, {8, 0, 1}, data, chunk("eXIf", six))), 6);
  EXPECT_EQ(orientation(png(4, 10, {8, 0, 1}, data + chunk("eXIf", six))), 1);
}

TEST(PngData, DamageIsNamed) {
  const Bytes rows = filtered(noise(40), 4, 1);
  const std::string data = compressed(rows);
  std::string wrong_sum = chunk("IDAT", data);
  wrong_sum.back() = static_cast<char>(wrong_sum.back() ^ 1);
  std::string wrong_adler = data;
  wrong_adler.back() = static_cast<char>(wrong_adler.back() ^ 1);
  Bytes other_filter = rows;
  other_filter[5] = 9;
  Bytes longer = rows;
  longer.resize(longer.size() + 5);
  const struct {
    std::string chunks;
    const char* message;
  } cases[] = {
      {wrong_sum, "CRC"},
      {chunk("IDAT", wrong_adler), "compressed data"},
      {chunk("IDAT", data.substr(0, data.size() / 2)), "compressed data"},
      {chunk("IDAT", data + "more"), "extra compressed data"},
      {chunk("IDAT", compressed(longer)), "too much image data"},
      {chunk("IDAT", compressed(Bytes(rows.begin(), rows.end() - 5))), "not enough image data"},
      {chunk("IDAT", compressed(other_filter)), "filter 9"},
      {chunk("IDAT", data.substr(0, 9)) + chunk("tEXt", "between") + chunk("IDAT", data.substr(9)),
       "consecutive"},
  };
  for (const auto& [chunks, message] : cases) {
    const Status status = decode_png(png(4, 10, {8, 0, 1}, chunks), 4, 10, 1).status;
    EXPECT_EQ(status.code(), ErrorCode::kCorrupt) << message;
    EXPECT_NE(status.message().find(message), std::string::npos) << status.message();
  }
  const std::string whole = png(4, 10, {8, 0, 1}, chunk("IDAT", data));
  ASSERT_TRUE(decode_png(whole, 4, 10, 1).status.ok());
  const Status cut = decode_png(whole.substr(0, whole.size() - 12), 4, 10, 1).status;
  EXPECT_EQ(cut.code(), ErrorCode::kCorrupt);
  EXPECT_NE(cut.message().find("ends too early"), std::string::npos) << cut.message();
}

}  // namespace
}  // namespace dlpipe::data
