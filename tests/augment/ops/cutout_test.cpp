#include "tests/augment/chain_testing.h"

namespace dlpipe::augment {
namespace {

TEST(Cutout, SetsOneClippedSquareAndNothingElse) {
  const OwnedImage image = noise_image(12, 10);
  const Chain chain = parse_or_die("cutout(5, fill=10:20:30)");
  const Chain flipped = parse_or_die("cutout(5, fill=10:20:30) hflip(1)");
  for (int position = 0; position < 200; ++position) {
    const SampleKey key{.seed = 1, .position = position};
    const ChainPlan plan = plan_or_die(chain, {12, 10, 3}, key);
    const auto left = static_cast<int>(plan.draws[0].values[0]);
    const auto top = static_cast<int>(plan.draws[0].values[1]);
    const OwnedImage out = run_chain(chain, image, key);
    for (int y = 0; y < 10; ++y) {
      for (int x = 0; x < 12; ++x) {
        const bool inside = x >= left && x < left + 5 && y >= top && y < top + 5;
        for (int c = 0; c < 3; ++c) ASSERT_EQ(out.at(x, y, c), inside ? 10 * (c + 1) : image.at(x, y, c));
      }
    }
    ASSERT_EQ(run_chain(flipped, image, key), out.mirrored());
  }
}

TEST(Cutout, CentreIsUniformOverTheImage) {
  const Chain chain = parse_or_die("cutout(4)");
  std::vector<int> seen(8);
  for (int position = 0; position < 8000; ++position) {
    const ChainPlan plan = plan_or_die(chain, {8, 8, 3}, {.seed = 3, .position = position});
    ++seen[static_cast<size_t>(plan.draws[0].values[0] + 2)];
  }
  for (int count : seen) EXPECT_NEAR(count, 1000, 148);  // five times sqrt(8000 * 1/8 * 7/8)
}

TEST(Cutout, IsLeftOutWithItsProbabilityAndThenCostsNothing) {
  const OwnedImage image = noise_image(12, 10);
  EXPECT_EQ(run_chain("cutout(5, p=0)", image, {}), image);
  EXPECT_TRUE(plan_or_die(parse_or_die("cutout(5, p=0)"), {12, 10, 3}, {}).is_copy());
}

TEST(Cutout, RefusesWrongFills) {
  EXPECT_NE(parse_error("cutout(5, fill=256)").find("0..255"), std::string::npos);
  EXPECT_NE(parse_error("cutout(5, fill=0.5)").find("whole numbers"), std::string::npos);
  EXPECT_NE(parse_error("cutout(5, fill=1:2:3:4:5)").find("one per channel"), std::string::npos);
  ChainPlan plan;
  EXPECT_NE(parse_or_die("cutout(5, fill=1:2:3)").plan({8, 8, 1}, {}, plan).message().find("1 channels"),
            std::string::npos);
}

}  // namespace
}  // namespace dlpipe::augment
