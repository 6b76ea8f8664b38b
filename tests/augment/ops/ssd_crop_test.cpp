#include "tests/augment/golden_crops.h"

namespace dlpipe::augment {
namespace {

TEST(SsdCrop, IsTorchvisionsForTheSameNumbers) {
  int whole = 0, dropped = 0;
  for_golden_crops("ssd_crop", [&](const GoldenCrop& golden) {
    const Chain chain = parse_or_die(golden.expression);
    const ChainPlan plan = plan_with_boxes(chain, golden.width, golden.height, golden.boxes, golden.key);
    ASSERT_EQ(plan.draws[0].active, !golden.crop.empty());
    EXPECT_EQ(kept_of(plan, golden.boxes), golden.kept);
    for (const uint8_t kept : golden.kept) dropped += kept == 0 ? 1 : 0;
    ++(golden.crop.empty() ? whole : dropped);
    const Region all = {0, 0, golden.width, golden.height};
    const std::vector<int>& c = golden.crop;
    EXPECT_EQ(plan.source_region, c.empty() ? all : (Region{c[0], c[1], c[2], c[3]}));
  });
  EXPECT_GT(whole, 5);
  EXPECT_GT(dropped, 20);
}

/// What stands before moves the boxes that it draws by: the same crop, mirrored, of the mirrored image.
TEST(SsdCrop, DrawsByTheBoxesAsTheyComeToIt) {
  const std::vector<float> boxes = {10, 10, 50, 40, 80, 50, 110, 85};
  std::vector<float> mirrored = {120 - 50, 10, 120 - 10, 40, 120 - 110, 50, 120 - 80, 85};
  const Chain chain = parse_or_die("hflip(1) ssd_crop");
  int crops = 0;
  for (int position = 0; position < 50; ++position) {
    const SampleKey key{.seed = 4, .position = position};
    const ChainPlan plan = plan_with_boxes(chain, 120, 90, boxes, key);
    if (!plan.draws[1].active) continue;
    ++crops;
    const Region crop = plan.draws[1].region;
    const auto holds = [&](size_t i) {
      const float x = (mirrored[i] + mirrored[i + 2]) / 2, y = (mirrored[i + 1] + mirrored[i + 3]) / 2;
      return x > static_cast<float>(crop.x) && x < static_cast<float>(crop.x + crop.width) &&
             y > static_cast<float>(crop.y) && y < static_cast<float>(crop.y + crop.height);
    };
    EXPECT_TRUE(holds(0) || holds(4));
    EXPECT_EQ(kept_of(plan, boxes), (std::vector<uint8_t>{holds(0), holds(4)}));
    EXPECT_EQ(plan.source_region, (Region{120 - crop.x - crop.width, crop.y, crop.width, crop.height}));
  }
  EXPECT_GT(crops, 20);
}

TEST(SsdCrop, KeepsTheImageWithoutBoxesAndWhereNothingFits) {
  const Region all = {0, 0, 100, 60};
  EXPECT_EQ(plan_with_boxes(parse_or_die("ssd_crop(overlaps=0)"), 100, 60, {}, {}).source_region, all);
  const std::vector<float> tiny = {50, 30, 51, 31};
  const Chain chain = parse_or_die("ssd_crop(overlaps=0.9,trials=3)");
  EXPECT_EQ(plan_with_boxes(chain, 100, 60, tiny, {}).source_region, all);
}

TEST(SsdCrop, IsChosenByOthersAndBehindAMosaic) {
  const Chain chain = parse_or_die("one_of(ssd_crop(overlaps=0.1) | vflip(1)) resize(20)");
  const std::vector<float> boxes = {10, 10, 50, 40};
  int crops = 0;
  for (int position = 0; position < 20; ++position) {
    const ChainPlan plan = plan_with_boxes(chain, 90, 60, boxes, {.seed = 2, .position = position});
    crops += plan.source_region != Region{0, 0, 90, 60} ? 1 : 0;
  }
  EXPECT_GT(crops, 4);
  const Chain joined = parse_or_die("mosaic(50,center=0.5) ssd_crop(0.2..0.4,overlaps=0.05)");
  const std::vector<float> none, one = {30, 5, 48, 20};
  std::vector<PlannedImage> images(4, PlannedImage{{50, 50, 3}, 0, none});
  images[3].boxes = one;  // the lower right one: from 50, 50
  ChainPlan plan;
  throw_if_error(joined.plan(images, {.seed = 3}, plan));
  ASSERT_TRUE(plan.draws[1].active);
  const Region crop = plan.draws[1].region;
  EXPECT_LT(crop.x, 50 + 39);
  EXPECT_GT(crop.x + crop.width, 50 + 39);
  EXPECT_GT(crop.y + crop.height, 50 + 12.5);
}

}  // namespace
}  // namespace dlpipe::augment
