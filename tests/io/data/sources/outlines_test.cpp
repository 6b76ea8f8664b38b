#include "io/data/sources/annotations/outlines.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/text.h"
#include "io/data/codec/mask.h"

namespace dlpipe::data {
namespace {

/// A row of digits for each row of pixels; 255 as '?'.
std::string make_image(const std::vector<uint8_t>& pixels, size_t width) {
  std::string text;
  for (size_t i = 0; i < pixels.size(); ++i) {
    text += pixels[i] == 255 ? '?' : static_cast<char>('0' + pixels[i]);
    if ((i + 1) % width == 0) text += '\n';
  }
  return text;
}

std::string drawn(const std::vector<Outline>& outlines, const std::vector<int64_t>& labels, int width,
                  int height, bool is_relative = false) {
  const auto pixels = draw_mask(outlines, labels, width, height, is_relative);
  return pixels.ok() ? make_image(*pixels, static_cast<size_t>(width)) : pixels.status().message();
}

Outline polygon(size_t object, std::vector<double> points) {
  return {.object = object, .polygons = {std::move(points)}};
}

TEST(Outlines, PolygonsAreFilledWithTheNumbersOfTheirClasses) {
  EXPECT_EQ(drawn({polygon(0, {1, 1, 4, 1, 4, 3, 1, 3})}, {4}, 6, 4), "000000\n055500\n055500\n000000\n");
  // Counter-clockwise, and in shares of the image.
  EXPECT_EQ(drawn({polygon(0, {0.5, 0, 0.5, 1, 1, 1, 1, 0})}, {0}, 4, 2, true), "0011\n0011\n");
  // Of several polygons of one object the first lies partly outside.
  Outline two = polygon(0, {-2, -2, 1, -2, 1, 1, -2, 1});
  two.polygons.push_back({2, 1, 4, 1, 4, 2, 2, 2});
  EXPECT_EQ(drawn({two}, {1}, 4, 2), "2000\n0022\n");
}

TEST(Outlines, WhereClassesMeetNothingIsKnown) {
  const Outline left = polygon(0, {0, 0, 3, 0, 3, 1, 0, 1});
  const Outline right = polygon(1, {2, 0, 5, 0, 5, 1, 2, 1});
  EXPECT_EQ(drawn({left, right}, {0, 1}, 5, 1), "11?22\n");
  EXPECT_EQ(drawn({left, right}, {1, 1}, 5, 1), "22222\n") << "objects of one class";
  Outline box = right;
  box.is_known = false;
  box.polygons = {{2, -10, 50, -10, 50, 10, 2, 10}};
  EXPECT_EQ(drawn({left, box}, {0, 1}, 5, 1), "11???\n");
}

TEST(Outlines, RunsGoDownTheColumns) {
  Outline runs{.object = 0, .runs = {1, 3, 2}, .runs_width = 3, .runs_height = 2};
  EXPECT_EQ(drawn({runs}, {0}, 3, 2), "010\n110\n");
  EXPECT_EQ(drawn({runs}, {0}, 2, 3), "an outline is for an image of 3x2, but the file is 2x3");
  runs.runs.push_back(1);
  EXPECT_EQ(drawn({runs}, {0}, 3, 2), "the runs of an outline cover 7 pixels instead of 6");
}

TEST(Outlines, PackedRunsAreCocos) {
  // What pycocotools encodes: 50x40 pixels, two of column 3 and columns 20 to 39.
  EXPECT_EQ(value_or_throw(unpack_runs("o32od0nh0aG")), (std::vector<uint32_t>{127, 2, 671, 800, 400}));
  EXPECT_EQ(value_or_throw(unpack_runs("")), std::vector<uint32_t>());
}

TEST(Outlines, TextThatIsNoRunsIsRefused) {
  for (const char* text : {"o", "   ", "\x7f", "oooooooo1", "M"}) {
    const auto runs = unpack_runs(text);
    EXPECT_FALSE(runs.ok()) << text;
    EXPECT_EQ(runs.status().code(), ErrorCode::kCorrupt);
  }
}

TEST(Outlines, WhatCantBeDrawnIsNamed) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_NE(drawn({polygon(0, {0, 0, 1e9, 0, 1, 1})}, {0}, 4, 4).find("far outside the image"),
            std::string::npos);
  EXPECT_NE(drawn({polygon(0, {0, 0, nan, 0, 1, 1})}, {0}, 4, 4).find("far outside the image"),
            std::string::npos);
  EXPECT_NE(drawn({polygon(0, {0, 0, 1, 0})}, {0}, 4, 4).find("has 4 numbers"), std::string::npos);
  EXPECT_NE(drawn({polygon(1, {0, 0, 1, 0, 1, 1})}, {0}, 4, 4).find("belongs to no object"),
            std::string::npos);
  EXPECT_NE(drawn({polygon(0, {0, 0, 1, 0, 1, 1})}, {254}, 4, 4).find("a mask holds 254 classes"),
            std::string::npos);
}

TEST(Outlines, AreKeptUnderATextThatTellsThemApart) {
  Outlines outlines;
  const std::vector<Outline> square = {polygon(0, {0, 0, 2, 0, 2, 2, 0, 2})};
  const std::string first = outlines.keep(square);
  EXPECT_EQ(outlines.keep(square), first);
  EXPECT_NE(outlines.keep({polygon(0, {0, 0, 2, 0, 2, 2, 0, 1})}), first);
  EXPECT_NE(outlines.keep({polygon(1, {0, 0, 2, 0, 2, 2, 0, 2})}), first);
  const std::vector<int64_t> labels = {6};
  const auto png = value_or_throw(outlines.mask(first, labels, 3, 2, false));
  MaskDecoder decoder;
  const ConstImageView mask = value_or_throw(decoder.decode(png));
  EXPECT_EQ(std::vector<uint8_t>(mask.row(0), mask.row(0) + 6), (std::vector<uint8_t>{7, 7, 0, 7, 7, 0}));
  // An image without objects: all of it is outside of them.
  const std::string none = outlines.keep({});
  EXPECT_NE(none, "");
  EXPECT_NE(none, first);
  const auto empty_png = value_or_throw(outlines.mask(none, {}, 2, 1, false));
  const ConstImageView empty = value_or_throw(decoder.decode(empty_png));
  EXPECT_EQ(std::vector<uint8_t>(empty.row(0), empty.row(0) + 2), (std::vector<uint8_t>{0, 0}));
  EXPECT_EQ(outlines.mask("0000000000000000", labels, 3, 2, false).status().code(), ErrorCode::kChanged);
}

}  // namespace
}  // namespace dlpipe::data
