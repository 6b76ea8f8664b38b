#include "tests/augment/golden_ops.h"

namespace dlpipe::augment {
namespace {

TEST(OneOf, RunsOneAlternativeAndEachEquallyOften) {
  const Chain chain = parse_or_die("one_of(invert | brightness(0..0) | hflip(1))");
  const OwnedImage image = make_image(3, 20, 12);
  const std::vector<OwnedImage> alone = {run_chain("invert", image, {}),
                                         run_chain("brightness(0..0)", image, {}), image.mirrored()};
  std::vector<int> seen(3);
  for (int position = 0; position < 3000; ++position) {
    const OwnedImage out = run_chain(chain, image, {.seed = 4, .position = position});
    const auto which = std::find(alone.begin(), alone.end(), out) - alone.begin();
    ASSERT_LT(which, 3) << position;
    ++seen[static_cast<size_t>(which)];
  }
  for (int count : seen) EXPECT_NEAR(count, 1000, 130);  // five times sqrt(3000 * 1/3 * 2/3)
}

TEST(OneOf, WeightsSayHowOften) {
  const Chain chain = parse_or_die("one_of(invert | brightness(0..0) | hflip(1), weights=3:0:1)");
  const OwnedImage image = make_image(3, 20, 12);
  const OwnedImage inverted = run_chain("invert", image, {}), mirrored = image.mirrored();
  int first = 0;
  for (int position = 0; position < 3000; ++position) {
    const OwnedImage out = run_chain(chain, image, {.seed = 4, .position = position});
    ASSERT_TRUE(out == inverted || out == mirrored) << position;
    first += out == inverted ? 1 : 0;
  }
  EXPECT_NEAR(first, 2250, 120);  // five times sqrt(3000 * 3/4 * 1/4)
  EXPECT_EQ(parse_or_die("one_of(invert | equalize)").canonical().find("weights"), std::string::npos);
  EXPECT_NE(parse_error("one_of(invert | equalize, weights=1:2:3)").find("3 weights, but 2 alternatives"),
            std::string::npos);
  EXPECT_NE(parse_error("one_of(invert | equalize, weights=0:0)").find("all weights are 0"),
            std::string::npos);
  EXPECT_FALSE(parse_error("one_of(invert | equalize, weights=-1:2)").empty());
}

TEST(OneOf, AlternativesAreChainsAndNest) {
  const OwnedImage image = make_image(3, 20, 12);
  EXPECT_EQ(run_chain("one_of(invert hflip(1))", image, {}), run_chain("invert hflip(1)", image, {}));
  EXPECT_EQ(run_chain("one_of(one_of(one_of(invert)))", image, {}), run_chain("invert", image, {}));
  EXPECT_EQ(run_chain("one_of(ops=invert | invert, p=0)", image, {}), image);
}

TEST(OneOf, WhatItChoosesIsFoldedAsIfItStoodThere) {
  const Chain chain = parse_or_die("rrc(8) one_of(hflip(1) | hflip(1))");
  EXPECT_EQ(plan_or_die(chain, {40, 30, 3}, {}).steps.size(), 1u);
  const Chain crop = parse_or_die("one_of(brightness(0.5) | invert) rrc(8)");
  const ChainPlan plan = plan_or_die(crop, {40, 30, 3}, {.seed = 5});
  EXPECT_LT(plan.source_region.width * plan.source_region.height, 40 * 30);
}

TEST(OneOf, TheHashTellsWhichWasChosen) {
  const Chain chain = parse_or_die("one_of(invert | equalize)");
  std::vector<uint64_t> hashes;
  for (int position = 0; position < 100; ++position)
    hashes.push_back(plan_or_die(chain, {4, 4, 3}, {.position = position}).hash);
  std::sort(hashes.begin(), hashes.end());
  EXPECT_EQ(std::unique(hashes.begin(), hashes.end()) - hashes.begin(), 2);
}

TEST(OneOf, OutputIsKnownWhereAllAlternativesAgree) {
  EXPECT_EQ(*parse_or_die("one_of(rrc(24) | resize(24x24))").output({}), (ImageSize{24, 24, 3}));
  EXPECT_FALSE(parse_or_die("one_of(rrc(24) | resize(24x25))").output({}).ok());
  EXPECT_FALSE(parse_or_die("one_of(rrc(24), p=0.5)").output({30, 30, 3}).ok());
}

TEST(OneOf, RefusesWhatCannotBeChosen) {
  EXPECT_EQ(parse_error("one_of(invert | hflp)"),
            "[augment] unknown op 'hflp' at position 1 of \"hflp\"; did you mean 'hflip'?");
  EXPECT_EQ(parse_error("one_of(invert | normalize)"),
            "[augment] normalize is inside one_of at position 1 of \"one_of(invert | normalize)\", but "
            "describes "
            "the whole batch; put it at the end of the chain");
  EXPECT_NE(parse_error("one_of").find("ops is missing"), std::string::npos);
  EXPECT_NE(parse_error("one_of(invert").find("never closed"), std::string::npos);
  std::string deep = "invert";
  for (int i = 0; i < 50; ++i) deep = "one_of(" + deep + ")";
  EXPECT_NE(parse_error(deep).find("reduce the nesting"), std::string::npos);
}

}  // namespace
}  // namespace dlpipe::augment
