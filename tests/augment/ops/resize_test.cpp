#include "dlpipe/augment/resize.h"

#include "tests/augment/chain_testing.h"

namespace dlpipe::augment {
namespace {

TEST(ResizeOp, OneNumberIsTheShorterSideAndTheOtherIsRoundedDown) {
  const auto out = [](const std::string& expression, int width, int height) {
    return *parse_or_die(expression).output({width, height, 3});
  };
  EXPECT_EQ(out("resize(256)", 500, 375), (ImageSize{341, 256, 3}));  // 341.33
  EXPECT_EQ(out("resize(256)", 375, 500), (ImageSize{256, 341, 3}));
  EXPECT_EQ(out("resize(256)", 300, 300), (ImageSize{256, 256, 3}));
  EXPECT_EQ(out("resize(192x256)", 500, 375), (ImageSize{256, 192, 3}));
}

TEST(ResizeOp, TheSameSizeIsACopy) {
  const ChainPlan plan = plan_or_die(parse_or_die("resize(12x20)"), {20, 12, 3}, {});
  EXPECT_TRUE(plan.is_copy());
  const OwnedImage image = noise_image(20, 12);
  EXPECT_EQ(run_chain("resize(12x20)", image, {}), image);
}

TEST(ResizeOp, GivesTheKernelsPixels) {
  const OwnedImage image = noise_image(61, 43);
  OwnedImage expected(20, 30);
  resize_scalar(whole_resize(61, 43, 20, 30), image.view(), expected.view(), false);
  EXPECT_EQ(run_chain("resize(30x20)", image, {}), expected);
}

TEST(ResizeOp, RefusesAnAbsurdlyLongSide) {
  ChainPlan plan;
  const Status status = parse_or_die("resize(1000)").plan({100000, 1, 3}, {}, plan);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.message(),
            "[augment] resize(size=1000): an image of 100000x1 would become 100000000x1000, more than 65536; "
            "give both sides, as HxW");
  EXPECT_FALSE(parse_or_die("resize(60000)").plan({1000000, 1, 3}, {}, plan).ok());
}

}  // namespace
}  // namespace dlpipe::augment
