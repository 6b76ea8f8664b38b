#include <gtest/gtest.h>

#include "dlpipe/source.h"
#include "io/data/codec/bitmaps.h"
#include "io/data/sources/inputs/inputs.h"
#include "tests/io/data/sources/annotated_values.h"
#include "tests/io/data/sources/wire_writing.h"
#include "tests/io/data/temp_dir.h"

namespace dlpipe::data {
namespace {

std::string descriptor(int kind, std::string name, std::string arguments = "") {
  name.resize(16);
  arguments.resize(1024);
  return std::string(1, static_cast<char>(kind)) + name + arguments;
}

/// Two samples: a JPEG and a raw image of 2x1, with labels 7 and 5 and a text each.
struct Beton {
  uint64_t version = 2;
  uint64_t samples = 2;
  std::string label_name = "label";
  uint64_t raw_width = 2;
  uint64_t text_size = 3;
  uint64_t piece_shift = 0;
  std::string first_text = "one";

  std::string text() const {
    const std::string fields = descriptor(2, "image") + descriptor(1, label_name) + descriptor(3, "note");
    const uint64_t rows_begin = 24 + fields.size();
    const uint64_t begin = rows_begin + 2 * 40;
    const uint64_t first_size = first_text.size();
    const uint64_t raw_at = 4 + first_size;
    const auto row = [&](int mode, uint64_t width, uint64_t at, uint64_t label, uint64_t note,
                         uint64_t note_size) {
      return le_bytes(static_cast<uint64_t>(mode), 1) + le_bytes(width, 2) + le_bytes(1, 2) +
             le_bytes(at, 8) + std::string(3, '\0') + le_bytes(label, 8) + le_bytes(note, 8) +
             le_bytes(note_size, 8);
    };
    const std::string rows = row(0, 9, begin, 7, begin + 4, first_size) +
                             row(1, raw_width, begin + raw_at, 5, begin + raw_at + 6, text_size);
    const std::string pages = "jpeg" + first_text + "rawrawtwo";
    std::string pieces;
    for (const auto& [sample, at, size] : {std::tuple<uint64_t, uint64_t, uint64_t>{1, raw_at, 6},
                                           {0, 0, 4},
                                           {0, 4, first_size},
                                           {1, raw_at + 6, 3}})
      pieces += le_bytes(sample, 8) + le_bytes(begin + at + piece_shift, 8) + le_bytes(size, 8);
    return le_bytes(version, 2) + le_bytes(3, 2) + le_bytes(1 << 21, 4) + le_bytes(samples, 8) +
           le_bytes(begin + pages.size(), 8) + fields + rows + pages + pieces;
  }
};

class BetonSource : public testing::Test {
 protected:
  Result<SourceListing> list(const std::string& text, SourceOptions options = {}) {
    options.path = dir / "a.beton";
    write_text(options.path, text);
    auto source = open_source(options);
    if (!source.ok()) return source.status();
    source_ = std::move(*source);
    return source_->list();
  }
  std::string message(const std::string& text) { return list(text).status().message(); }
  TempDir dir;
  std::unique_ptr<Source> source_;
};

TEST_F(BetonSource, ImagesAreJpegsOrRawWithTheirFields) {
  SourceListing listing = value_or_throw(list(Beton().text()));
  EXPECT_EQ(listing.classes, (std::vector<std::string>{"5", "7"}));
  EXPECT_EQ(field_names(listing), std::vector<std::string>{"note"});
  ASSERT_EQ(listing.entries.size(), 2u);
  EXPECT_EQ(listing.entries[0].path, "a-000000");
  EXPECT_EQ(listing.entries[0].label, 1);
  EXPECT_EQ(listing.entries[0].extra[0], "one");
  EXPECT_EQ(listing.entries[1].extra[0], "two");
  EXPECT_EQ(value_or_throw(source_->read(listing.entries[0])).size(), 4u);
  EXPECT_EQ(value_or_throw(source_->read(listing.entries[1])).size(), kRawHeaderBytes + 6);
  listing = value_or_throw(list(Beton{.label_name = "kind"}.text()));
  EXPECT_EQ(listing.entries[0].label, 1) << "the only integer";
  EXPECT_NE(
      list(Beton().text(), {.path = "", .label = "lable"}).status().message().find("did you mean 'label'"),
      std::string::npos);
}

// FFCV gives an empty value the place of what is written next: of another sample's image.
TEST_F(BetonSource, AnEmptyValueTakesNothingFromTheImageBehindIt) {
  const SourceListing listing = value_or_throw(list(Beton{.first_text = ""}.text()));
  ASSERT_EQ(listing.entries.size(), 2u);
  for (const SourceEntry& entry : listing.entries) EXPECT_EQ(entry.problem, "");
  EXPECT_EQ(listing.entries[0].extra[0], "");
  EXPECT_EQ(listing.entries[1].extra[0], "two");
  EXPECT_EQ(value_or_throw(source_->read(listing.entries[1])).size(), kRawHeaderBytes + 6);
}

TEST_F(BetonSource, AFolderOfThemHasSplits) {
  write_text(dir / "f/train.beton", Beton().text());
  write_text(dir / "f/val.beton", Beton().text());
  const std::vector<std::string> given = {dir / "f"};
  const SourceListing listing = value_or_throw(value_or_throw(open_sources(given, "", {}))->list());
  ASSERT_EQ(listing.entries.size(), 4u);
  EXPECT_EQ(listing.entries[3].split, "val");
}

TEST_F(BetonSource, WhatDoesNotFitIsNamed) {
  EXPECT_NE(message(Beton{.version = 1}.text()).find("version 1 of .beton"), std::string::npos);
  EXPECT_NE(message(Beton{.samples = ~uint64_t{0}}.text()).find("too short for its"), std::string::npos);
  EXPECT_NE(message(Beton{.samples = 0}.text()).find("too short for its 0"), std::string::npos);
  EXPECT_NE(message(Beton{.piece_shift = 1000}.text()).find("outside its pages"), std::string::npos);
  EXPECT_NE(value_or_throw(list(Beton{.raw_width = 3}.text())).entries[1].problem.find("of 3x1 has 6 bytes"),
            std::string::npos);
  EXPECT_NE(value_or_throw(list(Beton{.text_size = 9}.text())).entries[1].problem.find("size"),
            std::string::npos);
  const std::string whole = Beton().text();
  EXPECT_NE(message(whole + std::string(3 * 24, '\0')).find("too long for its 2 samples"), std::string::npos);
  for (size_t size = 0; size < whole.size(); size += size % 24 == 23 ? 1 : 7) {
    const auto listing = list(whole.substr(0, size));
    if (!listing.ok()) continue;
    for (const SourceEntry& entry : listing->entries) EXPECT_NE(entry.problem, "") << size;
  }
}

}  // namespace
}  // namespace dlpipe::data
