#include "tests/augment/golden_ops.h"

namespace dlpipe::augment {
namespace {

TEST(Jpeg, GivesThePixelsOfPillowsFiles) {
  expect_golden("jpeg");
}

TEST(Jpeg, ReadsTheCodedUnitsAroundWhatIsNeeded) {
  expect_region_is_enough("jpeg(30)");
  expect_region_is_enough("jpeg(1..100)");
}

TEST(Jpeg, DrawsEveryQualityOfTheRange) {
  const Chain chain = parse_or_die("jpeg(20..23)");
  std::vector<int> seen(101);
  for (int position = 0; position < 200; ++position) {
    const ChainPlan plan = plan_or_die(chain, {45, 33, 3}, {.seed = 3, .position = position});
    ++seen.at(static_cast<size_t>(plan.draws[0].values[0]));
  }
  for (size_t quality = 20; quality <= 23; ++quality) EXPECT_GT(seen[quality], 20);
}

TEST(Jpeg, LeavesAlphaAlone) {
  const OwnedImage source = noise_image(40, 30, 4);
  const OwnedImage out = run_chain("jpeg(10)", source, {});
  for (int y = 0; y < 30; ++y) {
    for (int x = 0; x < 40; ++x) ASSERT_EQ(out.at(x, y, 3), source.at(x, y, 3));
  }
}

TEST(Jpeg, RefusesQualitiesThatThereAreNot) {
  EXPECT_NE(parse_error("jpeg(0)").find("1..100"), std::string::npos) << parse_error("jpeg(0)");
  EXPECT_FALSE(parse_error("jpeg").empty());
}

}  // namespace
}  // namespace dlpipe::augment
