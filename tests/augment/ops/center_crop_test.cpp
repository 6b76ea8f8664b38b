#include "tests/augment/chain_testing.h"

namespace dlpipe::augment {
namespace {

TEST(CenterCrop, TakesTheMiddleWithoutCopyingAndDecodesNothingElse) {
  const Chain chain = parse_or_die("center_crop(4x6)");
  const ChainPlan plan = plan_or_die(chain, {20, 10, 3}, {});
  EXPECT_EQ(plan.source_region, (Region{7, 3, 6, 4}));
  EXPECT_TRUE(plan.is_copy());
  const OwnedImage image = noise_image(20, 10);
  EXPECT_EQ(run_chain(chain, image, {}), image.part({7, 3, 6, 4}));
}

// Python's round, which torchvision uses, takes halves to the even neighbour.
TEST(CenterCrop, RoundsHalfAPixelToEvenAsTorchvisionDoes) {
  const Chain chain = parse_or_die("center_crop(4)");
  const auto begin = [&](int size) { return plan_or_die(chain, {size, 4, 3}, {}).source_region.x; };
  EXPECT_EQ(begin(5), 0);   // 0.5
  EXPECT_EQ(begin(7), 2);   // 1.5
  EXPECT_EQ(begin(9), 2);   // 2.5
  EXPECT_EQ(begin(11), 4);  // 3.5
}

TEST(CenterCrop, FramesASmallerImageWithZeros) {
  const OwnedImage image = noise_image(3, 9);
  const OwnedImage out = run_chain("center_crop(6)", image, {});
  ASSERT_EQ(out.width, 6);
  ASSERT_EQ(out.height, 6);
  EXPECT_EQ(out.part({1, 0, 3, 6}), image.part({0, 2, 3, 6}));
  for (int y = 0; y < 6; ++y) {
    for (int x : {0, 4, 5}) EXPECT_EQ(out.at(x, y), 0);
  }
  EXPECT_EQ(run_chain("center_crop(6) hflip(1)", image, {}), out.mirrored());
}

TEST(CenterCrop, AfterAResizeOnlyTheNeededPartIsDecodedAndComputed) {
  const OwnedImage image = noise_image(400, 100);
  const Chain chain = parse_or_die("resize(50) center_crop(40)");
  const ChainPlan plan = plan_or_die(chain, {400, 100, 3}, {});
  ASSERT_EQ(plan.steps.size(), 1u);
  EXPECT_LT(plan.source_region.width, 90);
  EXPECT_LT(plan.source_region.height, 90);
  // The same pixels as one after the other.
  const OwnedImage resized = run_chain("resize(50)", image, {});
  EXPECT_EQ(run_chain(chain, image, {}), resized.part({80, 5, 40, 40}));
}

TEST(CenterCrop, FoldsAlsoBehindAMirroredResize) {
  const OwnedImage image = noise_image(121, 77);
  const Chain chain = parse_or_die("resize(50) hflip(1) center_crop(40x41) hflip(1) center_crop(30)");
  EXPECT_EQ(plan_or_die(chain, {121, 77, 3}, {}).steps.size(), 1u);
  const OwnedImage resized = run_chain("resize(50)", image, {});
  const OwnedImage first = run_chain("center_crop(40x41)", resized.mirrored(), {});
  EXPECT_EQ(run_chain(chain, image, {}), run_chain("center_crop(30)", first.mirrored(), {}));
}

TEST(CenterCrop, NeedsASize) {
  EXPECT_EQ(parse_error("center_crop"),
            "[augment] center_crop: size is missing at position 1 of \"center_crop\"; it takes "
            "center_crop(size)");
}

}  // namespace
}  // namespace dlpipe::augment
