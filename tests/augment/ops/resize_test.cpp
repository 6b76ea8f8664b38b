#include "augment/resize.h"

#include "augment/kinds.h"
#include "tests/augment/golden_ops.h"

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

TEST(ResizeOp, GivesPillowsPixelsWithEveryFilter) {
  expect_golden("resize");
}

TEST(ResizeOp, EveryFilterMirrorsAndNeedsNoMoreThanTheCropBehindIt) {
  const OwnedImage image = make_image(3, 61, 47);
  for (const std::string filter : {"nearest", "area", "bicubic", "lanczos"}) {
    const std::string resize = "resize(40x55," + filter + ")";
    EXPECT_EQ(run_chain(resize + " hflip(1)", image, {}), run_chain(resize, image, {}).mirrored()) << filter;
    EXPECT_EQ(run_chain(resize + " center_crop(9x20)", image, {}),
              run_chain("center_crop(9x20)", run_chain(resize, image, {}), {}))
        << filter;
    EXPECT_LT(plan_or_die(parse_or_die(resize + " center_crop(9x20)"), {61, 47, 3}, {}).source_region.width,
              61);
  }
}

TEST(ResizeOp, EveryFilterLeavesTheRightPixelsOfAnAxisOfTheSameSize) {
  const OwnedImage image = make_image(3, 61, 47);
  for (const std::string filter : {"nearest", "area", "bilinear", "bicubic", "lanczos"}) {
    for (const std::string size : {"47x30", "20x61"}) {
      const std::string resize = "resize(" + size + "," + filter + ")";
      EXPECT_EQ(run_chain(resize + " center_crop(9x20)", image, {}),
                run_chain("center_crop(9x20)", run_chain(resize, image, {}), {}))
          << resize;
    }
  }
}

TEST(ResizeOp, OneNumberMayBeTheLongerSide) {
  EXPECT_EQ(*parse_or_die("resize(100, side=longer)").output({500, 375, 3}), (ImageSize{100, 75, 3}));
  EXPECT_EQ(*parse_or_die("resize(100, side=longer)").output({375, 500, 3}), (ImageSize{75, 100, 3}));
  EXPECT_NE(parse_error("resize(100x200, side=longer)").find("side=longer needs a single length"),
            std::string::npos);
}

TEST(ResizeOp, KeepsThePipelineIdThatItHadBeforeItHadFilters) {
  EXPECT_EQ(parse_or_die("resize(256) rrc(8)").canonical(),
            "resize(size=256)@1 rrc(size=8,scale=0.08..1,ratio=0.75..1.3333333333333333)@1");
  EXPECT_EQ(parse_or_die("resize(256,bicubic)").canonical(), "resize(size=256,interpolation=bicubic)@1");
}

TEST(ResizeOp, RefusesAnAbsurdlyLongSide) {
  ChainPlan plan;
  const Status status = parse_or_die("resize(1000)").plan({100000, 1, 3}, {}, plan);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(
      status.message(),
      "[augment] resize(size=1000): an image of 100000x1 would become 100000000x1000, more than 16777216; "
      "give both sides as HxW");
  EXPECT_FALSE(parse_or_die("resize(60000)").plan({1000000, 1, 3}, {}, plan).ok());
  EXPECT_EQ(parse_or_die("resize(224)").plan({20, 6000, 3}, {}, plan).message(),
            "[augment] resize(size=224): an image of 20x6000 would become 224x67200, more than 65536; give "
            "both sides as HxW, or crop the result");
  EXPECT_TRUE(parse_or_die("resize(1)").plan({100000, 1, 3}, {}, plan).ok()) << "no more than it is";
}

TEST(ResizeOp, OfALongThinImageACropTakesItsPart) {
  const OwnedImage image = noise_image(20, 6000);
  const Chain chain = parse_or_die("resize(224) hflip(1) center_crop(32x224)");
  const ChainPlan plan = plan_or_die(chain, {20, 6000, 3}, {});
  EXPECT_LT(plan.source_region.height, 20);
  OwnedImage whole(224, 67200);
  resize_scalar(whole_resize(20, 6000, 224, 67200), image.view(), whole.view(), false);
  EXPECT_EQ(apply_plan(chain, image, plan), whole.part({0, (67200 - 32) / 2, 224, 32}).mirrored());
  // Where all of it is needed, it is refused as without the crop.
  ChainPlan refused;
  EXPECT_FALSE(parse_or_die("resize(224) equalize center_crop(32)").plan({20, 6000, 3}, {}, refused).ok());
}

}  // namespace
}  // namespace dlpipe::augment
