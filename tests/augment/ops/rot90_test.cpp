#include "tests/augment/golden_ops.h"

namespace dlpipe::augment {
namespace {

TEST(Rot90, GivesNumpysPixels) {
  expect_golden("rot90");
}

TEST(Rot90, AFixedNumberOfTurnsGivesOneSize) {
  const auto size = [](const char* expression) { return parse_or_die(expression).size_after({32, 24, 3}); };
  for (const char* expression : {"rot90(0)", "rot90(2)", "rot90(2,p=0.5)"})
    EXPECT_EQ(size(expression), (ImageSize{32, 24, 3})) << expression;
  for (const char* expression : {"rot90(1)", "rot90(3)"})
    EXPECT_EQ(size(expression), (ImageSize{24, 32, 3})) << expression;
  for (const char* expression : {"rot90", "rot90(0..2)", "rot90(1,p=0.5)"})
    EXPECT_EQ(size(expression), (ImageSize{0, 0, 3})) << expression;
}

TEST(Rot90, NeedsNoMoreThanTheCropBehindIt) {
  expect_region_is_enough("rot90");
}

}  // namespace
}  // namespace dlpipe::augment
