#include <gtest/gtest.h>

#include "dlpipe/source.h"
#include "tests/io/data/temp_dir.h"

namespace dlpipe::data {
namespace {

std::vector<int> numbers(const std::vector<std::byte>& bytes) {
  std::vector<int> all;
  for (const std::byte byte : bytes) all.push_back(static_cast<int>(byte));
  return all;
}

TEST(TextSource, CutsATextIntoSequencesThatOverlapByOneToken) {
  TempDir dir;
  write_text(dir / "a.txt", "hello, hello");
  const auto source = value_or_throw(open_source({.path = dir / "a.txt", .length = 5}));
  const SourceListing listing = value_or_throw(source->list());
  EXPECT_EQ(listing.classes, (std::vector<std::string>{" ", ",", "e", "h", "l", "o"}));
  EXPECT_EQ(listing.tokens, 6);
  EXPECT_TRUE(listing.in_sequence);
  ASSERT_EQ(listing.warnings.size(), 1u);
  EXPECT_NE(listing.warnings[0].find("a.txt is read as a text of 12 characters, 6 different ones"),
            std::string::npos);
  ASSERT_EQ(listing.entries.size(), 2u);
  EXPECT_EQ(listing.entries[1].path, "a.txt-000000001");
  EXPECT_EQ(listing.entries[1].label, -1);
  EXPECT_EQ(numbers(value_or_throw(source->read(listing.entries[0]))), (std::vector<int>{3, 2, 4, 4, 5, 1}));
  EXPECT_EQ(numbers(value_or_throw(source->read(listing.entries[1]))), (std::vector<int>{1, 0, 3, 2, 4, 4}));
}

TEST(TextSource, AByteOrderMarkIsNoCharacter) {
  TempDir dir;
  write_text(dir / "a.txt", "\ufeffab\ufeffab");
  const auto source = value_or_throw(open_source({.path = dir / "a.txt", .length = 4}));
  const SourceListing listing = value_or_throw(source->list());
  EXPECT_EQ(listing.classes, (std::vector<std::string>{"a", "b", "\ufeff"})) << "elsewhere it is one";
  EXPECT_EQ(numbers(value_or_throw(source->read(listing.entries.at(0)))), (std::vector<int>{0, 1, 2, 0, 1}));
}

TEST(TextSource, CharactersAreCodePoints) {
  TempDir dir;
  write_text(dir / "a.txt", "zäß€😀z");
  const auto source = value_or_throw(open_source({.path = dir / "a.txt", .length = 5}));
  const SourceListing listing = value_or_throw(source->list());
  EXPECT_EQ(listing.classes, (std::vector<std::string>{"z", "ß", "ä", "€", "😀"}));
  ASSERT_EQ(listing.entries.size(), 1u);
  EXPECT_EQ(numbers(value_or_throw(source->read(listing.entries[0]))), (std::vector<int>{0, 2, 1, 3, 4, 0}));
}

TEST(TextSource, OtherTextsAreBytes) {
  TempDir dir;
  std::string many;
  for (int i = 0; i < 300; ++i) many += {static_cast<char>(0xc4 + i / 64), static_cast<char>(0x80 + i % 64)};
  for (const std::string& text : {many, std::string("caf\xe9 creme"), std::string("cut \xe2\x82")}) {
    write_text(dir / "a.txt", text);
    const auto source = value_or_throw(open_source({.path = dir / "a.txt", .length = 3}));
    const SourceListing listing = value_or_throw(source->list());
    ASSERT_EQ(listing.classes.size(), 256u);
    EXPECT_EQ(listing.classes[10], "0x0a");
    ASSERT_EQ(listing.warnings.size(), 1u);
    EXPECT_NE(listing.warnings[0].find("is read as text; it has more than 256 different characters"),
              std::string::npos);
    const auto tokens = value_or_throw(source->read(listing.entries[0]));
    for (size_t i = 0; i < tokens.size(); ++i) EXPECT_EQ(tokens[i], static_cast<std::byte>(text[i]));
  }
}

TEST(TextSource, RefusesWhatGivesNoSequence) {
  TempDir dir;
  write_text(dir / "short.txt", "short");
  write_text(dir / "empty.txt", "");
  for (const char* name : {"short.txt", "empty.txt"}) {
    const auto source = value_or_throw(open_source({.path = dir / name, .length = 5}));
    const auto listing = source->list();
    EXPECT_EQ(listing.status().code(), ErrorCode::kMisuse) << name;
    EXPECT_NE(listing.status().message().find("is read as a text and has "), std::string::npos);
    EXPECT_NE(listing.status().message().find("--length"), std::string::npos);
  }
  EXPECT_EQ(open_source({.path = dir / "short.txt", .length = 0}).status().code(), ErrorCode::kMisuse);
}

}  // namespace
}  // namespace dlpipe::data
