#include <gtest/gtest.h>

#include "dlpipe/codec.h"
#include "tests/io/data/codec/image_files.h"

// BMPs written here byte by byte: the forms that Pillow, which wrote the golden images, doesn't write.
namespace dlpipe::data {
namespace {

using Palette = std::vector<std::array<uint8_t, 3>>;  // red, green, blue

struct BmpForm {
  int width = 2;
  int height = 1;  // below 0: the first row is the upper one
  int bits = 24;
  uint32_t header = 40;  // 12: the form of OS/2
  uint32_t compression = 0;
  uint32_t colors = 0;  // of the palette, as the header says it; 0 is all that the depth has
  Palette palette{};
  std::vector<uint32_t> masks{};
  std::vector<uint8_t> rows{};  // as stored, each filled up to 4 bytes
};

std::vector<std::byte> bmp_file(const BmpForm& form) {
  std::vector<std::byte> out;
  const auto put = [&](uint32_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) out.push_back(static_cast<std::byte>(value >> (8 * i)));
  };
  const bool is_old = form.header == 12;
  const uint32_t palette_bytes = static_cast<uint32_t>(form.palette.size()) * (is_old ? 3 : 4);
  put('B' | 'M' << 8, 2), put(0, 4), put(0, 4);
  put(14 + form.header + palette_bytes + 4 * static_cast<uint32_t>(form.masks.size()), 4);
  put(form.header, 4);
  put(static_cast<uint32_t>(form.width), is_old ? 2 : 4),
      put(static_cast<uint32_t>(form.height), is_old ? 2 : 4);
  put(1, 2), put(static_cast<uint32_t>(form.bits), 2);
  if (!is_old) put(form.compression, 4), put(0, 4), put(0, 4), put(0, 4), put(form.colors, 4), put(0, 4);
  for (const uint32_t mask : form.masks) put(mask, 4);
  for (const auto& color : form.palette) {
    put(color[2], 1), put(color[1], 1), put(color[0], 1);
    if (!is_old) put(0, 1);
  }
  for (const uint8_t byte : form.rows) put(byte, 1);
  return out;
}

std::vector<uint8_t> pixels_of(const BmpForm& form) {
  Pixels pixels(form.width, std::abs(form.height), 3);
  const Status status = ImageDecoder().decode(bmp_file(form), all_of(pixels), pixels.view());
  EXPECT_TRUE(status.ok()) << status.message();
  return pixels.bytes;
}

std::string error_of(const BmpForm& form) {
  return probe_image(bmp_file(form)).status().message();
}

TEST(Bmp, EveryDepthHasItsColours) {
  const std::vector<uint8_t> wanted = {255, 0, 0, 10, 20, 30};
  const Palette palette = {{10, 20, 30}, {255, 0, 0}};
  EXPECT_EQ(pixels_of({.bits = 24, .rows = {0, 0, 255, 30, 20, 10, 0, 0}}), wanted);
  EXPECT_EQ(pixels_of({.bits = 32, .rows = {0, 0, 255, 9, 30, 20, 10, 9}}), wanted);
  EXPECT_EQ(pixels_of({.bits = 1, .colors = 2, .palette = palette, .rows = {0x80, 0, 0, 0}}), wanted);
  EXPECT_EQ(pixels_of({.bits = 4, .colors = 2, .palette = palette, .rows = {0x10, 0, 0, 0}}), wanted);
  EXPECT_EQ(pixels_of({.bits = 8, .colors = 2, .palette = palette, .rows = {1, 0, 0, 0}}), wanted);
}

TEST(Bmp, TheFormOfOs2HasAPaletteOfThreeBytes) {
  EXPECT_EQ(
      pixels_of({.bits = 1, .header = 12, .palette = {{10, 20, 30}, {255, 0, 0}}, .rows = {0x80, 0, 0, 0}}),
      (std::vector<uint8_t>{255, 0, 0, 10, 20, 30}));
  EXPECT_EQ(pixels_of({.bits = 24, .header = 12, .rows = {0, 0, 255, 30, 20, 10, 0, 0}}),
            (std::vector<uint8_t>{255, 0, 0, 10, 20, 30}));
}

TEST(Bmp, SixteenBitsAreFiveEachOrWhatTheMasksSay) {
  // red 31, then green 16 of 31
  EXPECT_EQ(pixels_of({.bits = 16, .rows = {0x00, 0x7c, 0x00, 0x02}}),
            (std::vector<uint8_t>{255, 0, 0, 0, 131, 0}));
  // 5, 6, 5: red 31, then green 32 of 63
  const std::vector<uint32_t> masks = {0xf800, 0x7e0, 0x1f};
  EXPECT_EQ(pixels_of({.bits = 16, .compression = 3, .masks = masks, .rows = {0x00, 0xf8, 0x00, 0x04}}),
            (std::vector<uint8_t>{255, 0, 0, 0, 129, 0}));
  // red in the lowest byte
  EXPECT_EQ(pixels_of({.bits = 32,
                       .compression = 3,
                       .masks = {0xff, 0xff00, 0xff0000},
                       .rows = {255, 0, 0, 0, 10, 20, 30, 0}}),
            (std::vector<uint8_t>{255, 0, 0, 10, 20, 30}));
}

TEST(Bmp, RowsBeginAtTheBottomUnlessTheHeightIsBelowZero) {
  const Palette palette = {{0, 0, 0}, {255, 255, 255}};
  const std::vector<uint8_t> rows = {0x80, 0, 0, 0, 0x00, 0, 0, 0};
  EXPECT_EQ(pixels_of({.width = 1, .height = 2, .bits = 1, .palette = palette, .rows = rows}),
            (std::vector<uint8_t>{0, 0, 0, 255, 255, 255}));
  EXPECT_EQ(pixels_of({.width = 1, .height = -2, .bits = 1, .palette = palette, .rows = rows}),
            (std::vector<uint8_t>{255, 255, 255, 0, 0, 0}));
}

TEST(Bmp, AGreyPaletteIsOneChannel) {
  const std::vector<uint8_t> rows = {0x80, 0, 0, 0};
  EXPECT_EQ(probe_image(bmp_file({.bits = 1, .palette = {{0, 0, 0}, {9, 9, 9}}, .rows = rows}))->channels, 1);
  EXPECT_EQ(probe_image(bmp_file({.bits = 1, .palette = {{0, 0, 0}, {9, 9, 8}}, .rows = rows}))->channels, 3);
  EXPECT_EQ(probe_image(bmp_file({.bits = 1, .palette = {{0, 1, 1}, {9, 9, 9}}, .rows = rows}))->channels, 3);
  EXPECT_EQ(probe_image(bmp_file({.bits = 24, .rows = {0, 0, 0, 0, 0, 0, 0, 0}}))->channels, 3);
}

TEST(Bmp, WhatCantBeIsNamed) {
  const std::vector<uint8_t> rows(16);
  const auto expect = [](const BmpForm& form, std::string_view said) {
    EXPECT_NE(error_of(form).find(said), std::string::npos) << said << ": " << error_of(form);
  };
  expect({.width = 0, .rows = rows}, "invalid width or height");
  expect({.height = 0, .rows = rows}, "invalid width or height");
  expect({.bits = 7, .rows = rows}, "invalid depth");
  expect({.header = 39, .rows = rows}, "invalid header");
  expect({.compression = 1, .rows = rows}, "compression");
  expect({.bits = 24, .compression = 3, .masks = {0xff, 0xff00, 0xff0000}, .rows = rows}, "compression");
  expect({.height = 3, .rows = rows}, "fewer pixels");
  // A palette of more colours than the depth can name, in a file that has the bytes for them.
  expect({.bits = 1, .colors = 3, .palette = Palette(3), .rows = rows}, "palette");
  expect({.bits = 8, .colors = 257, .palette = Palette(257), .rows = rows}, "palette");
  EXPECT_EQ(error_of({.bits = 8, .colors = 256, .palette = Palette(256), .rows = rows}), "");
  expect({.bits = 8, .colors = 256, .palette = Palette(255), .rows = rows}, "palette");
  expect({.bits = 32, .compression = 3, .masks = {0xff, 0xff00, 0}, .rows = rows}, "masks");
  expect({.bits = 32, .compression = 3, .masks = {0xff, 0xff00, 0x50000}, .rows = rows}, "masks");
}

}  // namespace
}  // namespace dlpipe::data
