#include "dlpipe/augment.h"

#include <thread>

#include "augment/resize.h"
#include "tests/augment/chain_testing.h"

namespace dlpipe::augment {
namespace {

TEST(Chain, EmptyOneCopies) {
  const OwnedImage image = noise_image(13, 9);
  const Chain chain = parse_or_die("");
  EXPECT_TRUE(chain.empty());
  EXPECT_TRUE(plan_or_die(chain, {13, 9, 3}, {}).is_copy());
  EXPECT_EQ(run_chain(chain, image, {}), image);
}

TEST(Chain, OutputIsKnownOrSaysWhatToAdd) {
  EXPECT_EQ(*parse_or_die("rrc(192x256) hflip").output({}), (ImageSize{256, 192, 3}));
  EXPECT_EQ(*parse_or_die("resize(256) center_crop(224) normalize(0.5,0.5)").output({0, 0, 1}),
            (ImageSize{224, 224, 1}));
  EXPECT_EQ(*parse_or_die("hflip").output({32, 24, 3}), (ImageSize{32, 24, 3}));
  const auto unknown = parse_or_die("resize(256) hflip").output({});
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.status().code(), ErrorCode::kMisuse);
  EXPECT_EQ(unknown.status().message(),
            "[augment] \"resize(size=256)@1 hflip(p=0.5)@1\" makes images of different sizes, which can't be "
            "in one batch; add rrc(SIZE), resize(HxW), center_crop(SIZE) or pad_crop(SIZE,PAD)");
}

TEST(Chain, OpsThatRunOthersHaveTheSizeOfAllThatTheyMayChoose) {
  const auto side = [](const char* expression) {
    const ImageSize out = parse_or_die(expression).size_after({32, 32, 3});
    EXPECT_EQ(out.width, out.height) << expression;
    return out.width;
  };
  EXPECT_EQ(side("repeat(2,pad(4))"), 48);
  EXPECT_EQ(side("any_order(pad(1)|pad(1))"), 36);
  EXPECT_EQ(side("some_of(2,pad(1)|pad(1)|pad(1))"), 36);
  EXPECT_EQ(side("repeat(0,center_crop(24))"), 32);
  EXPECT_EQ(side("repeat(1..3,center_crop(24))"), 24);
  EXPECT_EQ(side("repeat(0..9,hflip)"), 32);
  EXPECT_EQ(side("color_jitter(0,0,0,0)"), 32);
  for (const char* const expression :
       {"repeat(0..1,center_crop(24))", "some_of(0..1,center_crop(24)|center_crop(24))",
        "repeat(1..2,pad(1))", "any_order(pad(1)|center_crop(8))", "one_of(pad(1)|hflip)",
        "repeat(2,pad(1),p=0.5)"}) {
    EXPECT_EQ(side(expression), 0) << expression;
    EXPECT_FALSE(parse_or_die(expression).output({32, 32, 3}).ok()) << expression;
  }
  EXPECT_EQ(side("repeat(0..1,center_crop(24)) resize(16x16)"), 16);
}

TEST(Chain, FindsTheOpThatIsRandom) {
  const auto random = [](const char* expression) {
    const OpRecord* const found = parse_or_die(expression).find_random();
    return std::string(found == nullptr ? "" : found->name);
  };
  for (const char* expression :
       {"", "resize(40) center_crop(32)", "resize(32x48) normalize(0.5,0.5)", "hflip(p=1)", "hflip(p=0)",
        "repeat(2,pad(4)) resize(16x16)", "center_crop(5000)"})
    EXPECT_EQ(random(expression), "") << expression;
  EXPECT_EQ(random("resize(40) rrc(32) hflip"), "rrc");
  EXPECT_EQ(random("resize(40) center_crop(32) hflip"), "hflip");
  EXPECT_EQ(random("pad_crop(32,4)"), "pad_crop");
  EXPECT_EQ(random("resize(32x32) one_of(hflip(p=1)|pad(1))"), "one_of");
  EXPECT_EQ(random("resize(32x32) color_jitter(0.4,0.4,0.4,0)"), "color_jitter");
}

TEST(Chain, OnlyTheFirstOpsRegionIsDecoded) {
  const Chain chain = parse_or_die("center_crop(200) rrc(16)");
  const ChainPlan plan = plan_or_die(chain, {500, 400, 3}, {.seed = 5});
  EXPECT_EQ(plan.source_region.x, 150 + plan.draws[1].region.x);
  EXPECT_EQ(plan.source_region.y, 100 + plan.draws[1].region.y);
  EXPECT_EQ(plan.source_region.width, plan.draws[1].region.width);
  const OwnedImage image = noise_image(500, 400);
  // Drawn as by an rrc that stands second: the key holds the place in the chain.
  const OwnedImage cropped = run_chain("center_crop(200)", image, {});
  EXPECT_EQ(run_chain(chain, image, {.seed = 5}),
            run_chain("center_crop(200) rrc(16)", cropped, {.seed = 5}));
}

// Every chain equals its ops run one at a time on whole images: folding changes no pixel. Inactive seconds
// are kept in place by `hflip(0)`, so that each op keeps its index and with it its numbers.
TEST(Chain, FoldingGivesThePixelsOfOneOpAfterAnother) {
  const std::vector<std::vector<std::string>> chains = {
      {"resize(40)", "center_crop(33)", "hflip(0.5)"},
      {"resize(40)", "hflip(0.5)", "center_crop(33x20)", "cutout(9)"},
      {"resize(50x60)", "pad_crop(32,4)", "hflip(0.5)", "center_crop(20)"},
      {"resize(50x60)", "pad_crop(50,4,reflect)", "hflip(0.5)", "cutout(7,fill=9,p=0.5)", "hflip(0.5)"},
      {"rrc(32)", "hflip(0.5)", "center_crop(40)", "rrc(16)"},
      {"center_crop(70x60)", "resize(30)", "rrc(20)", "hflip(0.5)", "resize(25x10)"},
      {"resize(45)", "center_crop(30)", "center_crop(20x24)", "hflip(0.5)", "center_crop(10)"},
      {"hflip(0.5)", "rrc(20)", "hflip(0.5)"},
      {"hflip(0.5)", "center_crop(20)", "hflip(0.5)", "pad_crop(16,2)"},
  };
  const OwnedImage image = noise_image(97, 83);
  for (const std::vector<std::string>& ops : chains) {
    std::string whole;
    for (const std::string& op : ops) whole += op + " ";
    for (int position = 0; position < 40; ++position) {
      const SampleKey key{.seed = 9, .epoch = 2, .position = position};
      OwnedImage expected = image;
      for (size_t i = 0; i < ops.size(); ++i) {
        std::string single;
        for (size_t before = 0; before < i; ++before) single += "hflip(0) ";
        expected = run_chain(single + ops[i], expected, key);
      }
      ASSERT_EQ(run_chain(whole, image, key), expected) << whole << "at " << position;
    }
  }
}

// Whoever does the one resize that a plan comes to gets apply's pixels; what is more than that says so.
TEST(Chain, APlanThatIsOneResizeSaysWhich) {
  const OwnedImage image = noise_image(97, 83);
  const auto count = [&](const char* expression) {
    const Chain chain = parse_or_die(expression);
    int resizes = 0;
    for (int position = 0; position < 40; ++position) {
      const SampleKey key{.seed = 9, .epoch = 2, .position = position};
      const ChainPlan plan = plan_or_die(chain, {97, 83, 3}, key);
      const std::optional<PlannedResize> planned = as_resize(plan);
      if (!planned) continue;
      ++resizes;
      EXPECT_EQ(resize_support(planned->geometry).width, plan.source_region.width) << expression;
      OwnedImage out(planned->geometry.window.width, planned->geometry.window.height);
      resize_scalar(planned->geometry, image.part(plan.source_region).view(), out.view(), planned->mirror);
      EXPECT_EQ(out, run_chain(chain, image, key)) << expression << " at " << position;
    }
    return resizes;
  };
  for (const char* always : {"", "hflip", "rrc(24) hflip", "resize(40) center_crop(33) hflip center_crop(20)",
                             "center_crop(60) hflip(1)", "center_crop(70x60) resize(30x20) hflip",
                             "resize(50) hflip pad_crop(30,0)"})
    EXPECT_EQ(count(always), 40) << always;
  for (const char* at_times : {"hflip rrc(24)", "pad_crop(60,20)", "rrc(24) cutout(8,p=0.5)"}) {
    EXPECT_GT(count(at_times), 0) << at_times;
    EXPECT_LT(count(at_times), 40) << at_times;
  }
  for (const char* never : {"rrc(24) rrc(16)", "center_crop(120)", "cutout(8)"})
    EXPECT_EQ(count(never), 0) << never;
}

TEST(Chain, SameKeySamePixelsAndHashOnEveryThread) {
  const Chain chain = parse_or_die("rrc(24) hflip cutout(6)");
  const OwnedImage image = noise_image(64, 48);
  const SampleKey key{.seed = 77, .epoch = 3, .position = 1234567890123};
  const OwnedImage expected = run_chain(chain, image, key);
  const uint64_t hash = plan_or_die(chain, {64, 48, 3}, key).hash;
  std::vector<std::thread> threads;
  std::array<bool, 4> equal{};
  for (size_t t = 0; t < equal.size(); ++t) {
    threads.emplace_back([&, t] {
      equal[t] =
          run_chain(chain, image, key) == expected && plan_or_die(chain, {64, 48, 3}, key).hash == hash;
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (bool same : equal) EXPECT_TRUE(same);
}

TEST(Chain, HashFollowsEveryPartOfTheKeyAndTheDraws) {
  const Chain chain = parse_or_die("rrc(24) hflip");
  const auto hash = [&](const SampleKey& key) { return plan_or_die(chain, {64, 48, 3}, key).hash; };
  const SampleKey key{.seed = 1, .epoch = 2, .position = 3, .attempt = 0};
  EXPECT_EQ(hash(key), hash(key));
  EXPECT_NE(hash(key), hash({.seed = 2, .epoch = 2, .position = 3}));
  EXPECT_NE(hash(key), hash({.seed = 1, .epoch = 3, .position = 3}));
  EXPECT_NE(hash(key), hash({.seed = 1, .epoch = 2, .position = 4}));
  EXPECT_NE(hash(key), hash({.seed = 1, .epoch = 2, .position = 3, .attempt = 1}));
}

TEST(Chain, AReusedPlanAndScratchCarryNothingOver) {
  const Chain chain = parse_or_die("resize(40) pad_crop(36,4) cutout(8) hflip");
  ChainPlan plan;
  ChainScratch scratch;
  for (int position = 0; position < 30; ++position) {
    const OwnedImage image = noise_image(45 + position * 3, 120 - position * 2, 3, uint64_t(position));
    const SampleKey key{.seed = 1, .position = position};
    ASSERT_TRUE(chain.plan({image.width, image.height, 3}, key, plan).ok());
    OwnedImage out(36, 36);
    ASSERT_TRUE(chain.apply(plan, image.part(plan.source_region).view(), out.view(), scratch).ok());
    ASSERT_EQ(out, run_chain(chain, image, key));
  }
}

TEST(Chain, ApplyRefusesImagesThatAreNotThePlans) {
  const Chain chain = parse_or_die("center_crop(8)");
  const ChainPlan plan = plan_or_die(chain, {20, 20, 3}, {});
  const OwnedImage decoded(7, 8);
  OwnedImage out(8, 8);
  ChainScratch scratch;
  EXPECT_EQ(
      chain.apply(plan, decoded.view(), out.view(), scratch).message(),
      "[augment] apply got 7x8x3 -> 8x8x3, but the plan expects 8x8 -> 8x8x3; decode plan.source_region "
      "and pass plan.out's size");
}

TEST(Chain, RefusesASourceWithoutPixels) {
  ChainPlan plan;
  EXPECT_FALSE(Chain().plan({0, 20, 3}, {}, plan).ok());
  EXPECT_FALSE(Chain().plan({20, 20, 5}, {}, plan).ok());
}

// What README.md shows: an op that dlpipe doesn't know.
class Invert : public Op {
 public:
  Status apply(const OpDraw&, const ConstImageView& in, const ImageView& out, ChainScratch&) const override {
    for (int y = 0; y < out.height; ++y) {
      for (int i = 0; i < out.width * out.channels; ++i) out.row(y)[i] = 255 - in.row(y)[i];
    }
    return {};
  }
};

const OpRecord kInvert = {
    "negative", "the negative", 1, {}, [](OpArguments&) -> Result<std::shared_ptr<const Op>> {
      return std::shared_ptr<const Op>(std::make_shared<Invert>());
    }};

TEST(OpRegistry, TakesAProgramsOwnOp) {
  OpRegistry registry = OpRegistry::builtin();
  registry.add(kInvert);
  const auto chain = Chain::parse("center_crop(10) negative hflip(1)", registry);
  ASSERT_TRUE(chain.ok()) << chain.status().message();
  const OwnedImage image = noise_image(20, 16);
  OwnedImage expected = image.part({5, 3, 10, 10}).mirrored();
  for (uint8_t& value : expected.pixels) value = 255 - value;
  EXPECT_EQ(run_chain(*chain, image, {}), expected);
  EXPECT_FALSE(Chain::parse("negative").ok());  // the built-in table is as it was
  EXPECT_NE(Chain::parse("negativ", registry).status().message().find("did you mean 'negative'?"),
            std::string::npos);
}

TEST(OpRegistry, EveryBuiltInOpDescribesItself) {
  ASSERT_FALSE(OpRegistry::builtin().records().empty());
  for (const OpRecord* record : OpRegistry::builtin().records()) {
    EXPECT_FALSE(std::string(record->help).empty()) << record->name;
    EXPECT_GE(record->version, 1);
    for (const OpParam& param : record->params) EXPECT_FALSE(param.help.empty()) << param.name;
  }
}

}  // namespace
}  // namespace dlpipe::augment
