#include "dlpipe/registry.h"

#include <gtest/gtest.h>

namespace dlpipe {
namespace {

struct Colour {
  static constexpr const char* kKind = "colour";
  const char* name;
};
constexpr Colour kRed = {"red"}, kGreen = {"green"}, kOtherRed = {"red"};

/// One whose name stands elsewhere, as an op's in its record.
struct Painted {
  static constexpr const char* kKind = "colour";
  const Colour* colour;
  const char* name() const { return colour->name; }
};

TEST(Registry, FindsRecordsByName) {
  const Colour* const table[] = {&kRed, &kGreen};
  const Registry<Colour> colours(table);
  EXPECT_EQ(*colours.find("green"), &kGreen);
  EXPECT_EQ(colours.get("red"), &kRed);
  EXPECT_EQ(colours.get("blue"), nullptr);
  EXPECT_EQ(colours.names(), (std::vector<std::string>{"red", "green"}));
}

TEST(Registry, SuggestsTheNearestName) {
  Registry<Colour> colours;
  colours.add(kGreen);
  const auto found = colours.find("gren");
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.status().code(), ErrorCode::kMisuse);
  EXPECT_EQ(found.status().message(), "[colour] no colour 'gren'; did you mean 'green'?");
}

TEST(Registry, RefusesASecondRecordOfTheSameName) {
  Registry<Colour> colours;
  colours.add(kRed);
  EXPECT_THROW(colours.add(kOtherRed), Error);
  EXPECT_EQ(colours.get("red"), &kRed);
}

TEST(Registry, TakesNamesThatARecordComputes) {
  const Painted green = {&kGreen};
  Registry<Painted> painted;
  painted.add(green);
  EXPECT_EQ(painted.get("green"), &green);
}

}  // namespace
}  // namespace dlpipe
