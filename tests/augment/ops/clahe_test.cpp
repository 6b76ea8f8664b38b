#include "tests/augment/golden_ops.h"

namespace dlpipe::augment {
namespace {

TEST(Clahe, GivesOpencvsPixels) {
  expect_golden("clahe");
}

TEST(Clahe, LooksAtTheWholeImage) {
  expect_region_is_enough("clahe", false);
}

TEST(Clahe, DrawsItsLimitEvenlyFromTheRange) {
  const Chain chain = parse_or_die("clahe(2..6)");
  float least = 100, most = 0;
  for (int position = 0; position < 200; ++position) {
    const ChainPlan plan = plan_or_die(chain, {45, 33, 3}, {.seed = 3, .position = position});
    least = std::min(least, plan.draws[0].values[0]);
    most = std::max(most, plan.draws[0].values[0]);
  }
  EXPECT_GE(least, 2);
  EXPECT_LT(least, 2.2);
  EXPECT_LT(most, 6);
  EXPECT_GT(most, 5.8);
}

TEST(Clahe, LeavesAlphaAndImagesOfOnePixelAlone) {
  const OwnedImage source = noise_image(40, 30, 4);
  const OwnedImage out = run_chain("clahe(4)", source, {});
  for (int y = 0; y < 30; ++y) {
    for (int x = 0; x < 40; ++x) ASSERT_EQ(out.at(x, y, 3), source.at(x, y, 3));
  }
  EXPECT_EQ(run_chain("clahe(4)", noise_image(1, 1), {}).width, 1);
}

TEST(Clahe, RefusesGridsOfMoreTilesThanItHasTablesFor) {
  EXPECT_NE(parse_error("clahe(2,65)").find("at most 64"), std::string::npos);
}

}  // namespace
}  // namespace dlpipe::augment
