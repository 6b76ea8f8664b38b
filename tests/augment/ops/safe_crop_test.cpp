#include "tests/augment/golden_crops.h"

namespace dlpipe::augment {
namespace {

/// At most one pixel beside it: Albumentations divides by the image's size in single precision, and cuts parts of pixels off.
TEST(SafeCrop, IsAlbumentationsForTheSameNumbers) {
  int equal = 0, all = 0;
  for_golden_crops("safe_crop", [&](const GoldenCrop& golden) {
    const Chain chain = parse_or_die(golden.expression);
    const ChainPlan plan = plan_with_boxes(chain, golden.width, golden.height, golden.boxes, golden.key);
    const Region& crop = plan.source_region;
    ASSERT_EQ(golden.crop.size(), 4u);
    EXPECT_NEAR(crop.x, golden.crop[0], 1);
    EXPECT_NEAR(crop.y, golden.crop[1], 1);
    EXPECT_NEAR(crop.x + crop.width, golden.crop[0] + golden.crop[2], 1);
    EXPECT_NEAR(crop.y + crop.height, golden.crop[1] + golden.crop[3], 1);
    EXPECT_EQ(kept_of(plan, golden.boxes), golden.kept);
    ++all;
    equal += crop == Region{golden.crop[0], golden.crop[1], golden.crop[2], golden.crop[3]} ? 1 : 0;
  });
  EXPECT_GT(equal, all * 9 / 10);
}

TEST(SafeCrop, HoldsAllBoxesWhole) {
  const Chain chain = parse_or_die("safe_crop");
  const std::vector<float> boxes = {10.25F, 10.5F, 50, 40, 30, 5.75F, 70.5F, 44.125F};
  for (int position = 0; position < 200; ++position) {
    const Region crop = plan_with_boxes(chain, 90, 60, boxes, {.position = position}).source_region;
    EXPECT_LE(static_cast<float>(crop.x), 10.25F);
    EXPECT_LE(static_cast<float>(crop.y), 5.75F);
    EXPECT_GE(static_cast<float>(crop.x + crop.width), 70.5F);
    EXPECT_GE(static_cast<float>(crop.y + crop.height), 44.125F);
    EXPECT_LE(crop.x + crop.width, 90);
    EXPECT_LE(crop.y + crop.height, 60);
  }
}

TEST(SafeCrop, MayErodeAllAway) {
  const std::vector<float> boxes = {10, 10, 20, 20, 30, 30, 40, 40};
  for (int position = 0; position < 200; ++position) {
    const ChainPlan plan =
        plan_with_boxes(parse_or_die("safe_crop(1)"), 90, 60, boxes, {.position = position});
    const Region crop = plan.source_region;
    EXPECT_GE(crop.width, 1);
    EXPECT_EQ(crop.width, std::max(1, crop.height * 90 / 60));
    EXPECT_LE(crop.x + crop.width, 90);
    EXPECT_LE(crop.y + crop.height, 60);
  }
}

}  // namespace
}  // namespace dlpipe::augment
