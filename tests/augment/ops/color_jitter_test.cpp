#include "tests/augment/golden_ops.h"

namespace dlpipe::augment {
namespace {

TEST(ColorJitter, RunsFourOpsInEveryOrder) {
  const Chain chain = parse_or_die("color_jitter(1.4..1.4, 0.7..0.7, 0.5..0.5, 0.1..0.1)");
  std::vector<uint64_t> hashes;
  for (int position = 0; position < 2000; ++position) {
    const ChainPlan plan = plan_or_die(chain, {20, 12, 3}, {.seed = 2, .position = position});
    ASSERT_EQ(plan.draws.size(), 4u);
    hashes.push_back(plan.hash);
  }
  std::sort(hashes.begin(), hashes.end());
  EXPECT_EQ(std::unique(hashes.begin(), hashes.end()) - hashes.begin(), 24);
}

TEST(ColorJitter, IsWhatItsPartsGiveOneAfterAnother) {
  const OwnedImage image = make_image(3, 40, 30);
  const OwnedImage out = run_chain("color_jitter(1.4..1.4, 0.7..0.7)", image, {});
  const bool brighter_first = out == run_chain("brightness(1.4..1.4) contrast(0.7..0.7)", image, {});
  EXPECT_TRUE(brighter_first || out == run_chain("contrast(0.7..0.7) brightness(1.4..1.4)", image, {}));
}

TEST(ColorJitter, OneNumberIsADistanceAndNothingIsLeftOut) {
  EXPECT_EQ(parse_or_die("color_jitter(0.4)").canonical(),
            "color_jitter(brightness=0.6..1.4,contrast=1..1,saturation=1..1,hue=0..0,p=1)@1");
  EXPECT_TRUE(plan_or_die(parse_or_die("color_jitter"), {20, 12, 3}, {}).is_copy());
  EXPECT_NE(parse_error("color_jitter(hue=0.6)").find("hue must be in -0.5..0.5 turns"), std::string::npos);
}

}  // namespace
}  // namespace dlpipe::augment
