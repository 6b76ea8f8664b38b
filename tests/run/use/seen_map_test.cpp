// Masks judged in their own size, from logits of what the model sees.
#include "run/use/seen_map.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "dlpipe/metrics.h"

namespace dlpipe::run {
namespace {

constexpr int kHeight = 13, kWidth = 9;  // of the mask

std::vector<uint32_t> draws(uint32_t seed, size_t count) {
  std::vector<uint32_t> drawn;
  while (drawn.size() < count) {
    seed = seed * 1664525 + 1013904223;
    drawn.push_back(seed >> 16);
  }
  return drawn;
}

Result<SeenMap> map_of(const std::string& text) {
  const auto chain = value_or_throw(augment::Chain::parse(text));
  augment::ChainPlan plan;
  throw_if_error(chain.plan({kWidth, kHeight, 3}, SampleKey{}, plan));
  return seen_map(plan);
}

/// miou, pixel_accuracy and dice.
std::vector<double> judged(const std::string& chain) {
  std::vector<float> logits;
  for (const uint32_t drawn : draws(5, 6 * 5 * 3)) logits.push_back(static_cast<float>(drawn % 1009) / 1009);
  std::vector<uint8_t> mask;
  for (const uint32_t drawn : draws(6, kHeight * kWidth))
    mask.push_back(drawn % 4 == 3 ? TargetSpec::kIgnored : static_cast<uint8_t>(drawn % 4));
  const TaskRecord& task = *value_or_throw(TaskRegistry::builtin().find("segment"));
  const auto tally = task.tally({}, {});
  count_whole_mask(engine::Tensor::from(std::span<const float>(logits), {6, 5, 3}),
                   value_or_throw(map_of(chain)), {mask.data(), kWidth, kHeight, 1, kWidth}, *tally);
  std::vector<const engine::MetricRecord*> metrics;
  for (const std::string& name : task.metrics()) metrics.push_back(value_or_throw(engine::find_metric(name)));
  const std::vector<std::string> tallies = {tally->bytes()};
  return task.judge(tallies, metrics, {});
}

struct MaskCase {
  const char* chain;
  double miou, pixel_accuracy, dice;
};

class WholeMask : public testing::TestWithParam<MaskCase> {};

// The figures of PyTorch and NumPy: tests/run/task/make_golden.py prints them.
TEST_P(WholeMask, FiguresAreThoseOfPyTorchAndNumPy) {
  const MaskCase& c = GetParam();
  const std::vector<double> values = judged(c.chain);
  ASSERT_EQ(values.size(), 3u);
  EXPECT_NEAR(values[0], c.miou, 1e-9);
  EXPECT_NEAR(values[1], c.pixel_accuracy, 1e-9);
  EXPECT_NEAR(values[2], c.dice, 1e-9);
}

INSTANTIATE_TEST_SUITE_P(Chains, WholeMask,
                         testing::Values(MaskCase{"resize(6x5)", 0.240339893, 0.390804598, 0.386151006},
                                         MaskCase{"resize(12x9) center_crop(6x5)", 0.127318296, 0.233333333,
                                                  0.220992534},
                                         MaskCase{"resize(12x9) center_crop(6x5) hflip(1)", 0.296380090,
                                                  0.466666667, 0.438095238}));

TEST(SeenMap, AChainThatBendsImagesHasNone) {
  EXPECT_EQ(map_of("resize(32x32) perspective(0.5,p=1)").status().code(), ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace dlpipe::run
