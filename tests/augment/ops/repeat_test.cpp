#include "tests/augment/golden_ops.h"

namespace dlpipe::augment {
namespace {

TEST(Repeat, RunsTheSameOpsSeveralTimes) {
  const OwnedImage image = make_image(3, 20, 12);
  EXPECT_EQ(run_chain("repeat(3, invert)", image, {}), run_chain("invert", image, {}));
  EXPECT_EQ(run_chain("repeat(2, invert)", image, {}), image);
  EXPECT_EQ(run_chain("repeat(0, invert)", image, {}), image);
}

TEST(Repeat, DrawsAnewEveryTime) {
  const ChainPlan plan = plan_or_die(parse_or_die("repeat(4, brightness(0.9))"), {20, 12, 3}, {});
  ASSERT_EQ(plan.draws.size(), 4u);
  EXPECT_NE(plan.draws[0].values[0], plan.draws[1].values[0]);
}

TEST(Repeat, TooManyOpsForOneImageAreAnError) {
  ChainPlan plan;
  const Status status = parse_or_die("repeat(100, repeat(100, invert))").plan({20, 12, 3}, {}, plan);
  EXPECT_NE(status.message().find("more than 1000 ops for one image"), std::string::npos);
}

}  // namespace
}  // namespace dlpipe::augment
