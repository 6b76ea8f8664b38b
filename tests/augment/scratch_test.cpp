// What a chain says that it will take of memory, beside what it took: memory is planned by it.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/augment/chain_testing.h"

namespace dlpipe::augment {

/// The op as it stands, else with a size, or a number of pixels, that it asks for. Empty: it touches no pixel by itself.
static Chain chain_of(const std::string& op) {
  for (const char* arguments :
       {"", "(20)", "(4)", "(2)", "(hflip|vflip)", "(2,hflip|vflip)", "(1,hflip|vflip)"}) {
    auto chain = Chain::parse(op + arguments);
    if (chain.ok()) return *chain;
  }
  return {};
}

static void expect_enough(const Chain& chain, const std::string& name, int width, int height,
                          int channels = 3) {
  const OwnedImage image = noise_image(width, height, channels);
  for (int position = 0; position < 8; ++position) {
    ChainPlan plan;
    if (!chain.plan({width, height, channels}, {.seed = 4, .epoch = 1, .position = position}, plan).ok())
      continue;
    if (plan.is_joined()) continue;  // of several images: tests/pipeline/scratch_test.cpp
    OwnedImage out(plan.out.width, plan.out.height, channels);
    ChainScratch scratch;
    ASSERT_TRUE(chain.apply(plan, image.part(plan.source_region).view(), out.view(), scratch).ok()) << name;
    EXPECT_GE(Chain::scratch_bytes(plan), scratch.bytes())
        << name << " at " << position << " of " << width << "x" << height << "x" << channels << " to "
        << plan.out.width << "x" << plan.out.height;
    if (Chain::scratch_bytes(plan) < scratch.bytes()) return;
  }
}

TEST(Scratch, EveryOpSaysAtLeastWhatItTakes) {
  int tried = 0;
  for (const OpRecord* op : OpRegistry::builtin().records()) {
    const Chain chain = chain_of(op->name);
    tried += chain.empty() ? 0 : 1;
    for (const int channels : {3, 1}) {
      for (const auto& [width, height] : {std::pair(97, 83), {320, 240}, {2000, 30}})
        expect_enough(chain, op->name, width, height, channels);
    }
  }
  EXPECT_GT(tried, 50);
}

TEST(Scratch, TablesAndFieldsOfAnySizeCount) {
  for (const char* chain : {"clahe(grid=64)", "elastic(spacing=2)", "elastic(spacing=8) center_crop(64)"}) {
    for (const int channels : {3, 1}) expect_enough(parse_or_die(chain), chain, 600, 450, channels);
  }
}

TEST(Scratch, EveryFilterOfAResizeSaysAtLeastWhatItTakes) {
  for (const std::string filter : {"nearest", "area", "bicubic", "lanczos"}) {
    for (const std::string resize : {"resize(20,", "rrc(50,interpolation=", "downscale(0.1,"})
      for (const auto& [width, height] : {std::pair(97, 83), {3000, 2}, {2, 3000}})
        expect_enough(parse_or_die(resize + filter + ")"), resize + filter, width, height);
  }
}

TEST(Scratch, WhatStandsBetweenTwoOpsCounts) {
  const Chain chain = parse_or_die("rrc(3000) resize(32) hflip");
  const ChainPlan plan = plan_or_die(chain, {97, 83, 3}, {});
  EXPECT_GE(Chain::scratch_bytes(plan), size_t{3000} * 3000 * 3);
  EXPECT_LT(Chain::scratch_bytes(plan), size_t{3000} * 3000 * 3 / 10 * 11) << "a resize takes rows";
  for (const char* several : {"rrc(300) resize(32) color_jitter", "randaugment resize(200) hflip rotate(10)",
                              "resize(300) center_crop(280) gaussian_blur augmix hflip"})
    expect_enough(parse_or_die(several), several, 97, 83);
}

}  // namespace dlpipe::augment
