#include "augment/moving.h"
#include "augment/resize.h"
#include "tests/augment/chain_testing.h"

namespace dlpipe::augment {
namespace {

std::vector<uint8_t> kept_of(const std::string& expression, std::vector<float> rows) {
  const Chain chain = parse_or_die(expression);
  const ChainPlan plan = plan_or_die(chain, {100, 100, 3}, {});
  std::vector<uint8_t> kept;
  Moving(plan).boxes(rows, kept);
  return kept;
}

// The crop is x and y 20 .. 80.
const std::vector<float> kBoxes = {20, 20, 40, 40, 0,  20, 30, 30, 79, 20,
                                   99, 99, 0,  0,  10, 10, 30, 30, 32, 60};

TEST(DropBoxes, WithoutItOnlyBoxesOfWhichNothingIsLeftAreDropped) {
  EXPECT_EQ(kept_of("center_crop(60)", kBoxes), (std::vector<uint8_t>{1, 1, 1, 0, 1}));
}

TEST(DropBoxes, ByShareOfTheAreaThatIsLeft) {
  EXPECT_EQ(kept_of("center_crop(60) drop_boxes(share=0.33)", kBoxes), (std::vector<uint8_t>{1, 1, 0, 0, 1}));
  EXPECT_EQ(kept_of("center_crop(60) drop_boxes(share=0.34)", kBoxes), (std::vector<uint8_t>{1, 0, 0, 0, 1}));
  EXPECT_EQ(kept_of("drop_boxes(share=1) center_crop(60)", kBoxes), (std::vector<uint8_t>{1, 1, 1, 0, 1}))
      << "it judges where it stands";
}

TEST(DropBoxes, SharesOfSeveralCropsMultiply) {
  const std::vector<float> box = {0, 40, 40,
                                  60};  // half of it is in the first crop, half of that in the second
  EXPECT_EQ(kept_of("center_crop(60) center_crop(40) drop_boxes(share=0.25)", box),
            (std::vector<uint8_t>{1}));
  EXPECT_EQ(kept_of("center_crop(60) center_crop(40) drop_boxes(share=0.26)", box),
            (std::vector<uint8_t>{0}));
}

TEST(DropBoxes, BySidesAndArea) {
  EXPECT_EQ(kept_of("drop_boxes(side=3)", kBoxes), (std::vector<uint8_t>{1, 1, 1, 1, 0}));
  EXPECT_EQ(kept_of("resize(200x200) drop_boxes(side=3)", kBoxes), (std::vector<uint8_t>{1, 1, 1, 1, 1}));
  EXPECT_EQ(kept_of("drop_boxes(area=101)", kBoxes), (std::vector<uint8_t>{1, 1, 1, 0, 0}));
}

TEST(DropBoxes, NoPixelNoticesIt) {
  const OwnedImage image = noise_image(40, 30);
  EXPECT_EQ(run_chain("drop_boxes(side=5)", image, {}), image);
  const Chain chain = parse_or_die("drop_boxes resize(20x20) drop_boxes hflip(1)");
  const ChainPlan plan = plan_or_die(chain, {40, 30, 3}, {});
  EXPECT_EQ(plan.steps.size(), 1u);
  EXPECT_TRUE(as_resize(plan).has_value()) << "a device may do it as before";
}

TEST(DropBoxes, SharesAbove1AreRefused) {
  EXPECT_NE(parse_error("drop_boxes(1.5)").find("share"), std::string::npos);
}

}  // namespace
}  // namespace dlpipe::augment
