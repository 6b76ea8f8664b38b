// Steps of several batches on the simulated device: their graphs, one per batch, and the steps that are
// skipped.
#include <gtest/gtest.h>

#include "tests/run/device_step_fixture.h"

namespace dlpipe::run {
namespace {

using test::DeviceStep;
using test::FakeSource;
using test::Rig;
using test::simulated;
using test::Variant;
using GraphMode = GraphUse;

// Rows that are dropped are seen by nobody: a skipped step takes back what it counted, not what steps usually
// count.
TEST_F(DeviceStep, ASkippedStepOfFewerBatchesLeavesNoTrace) {
  const Variant variant = {.options = {.accumulate = 2, .skip_nonfinite = true}};
  Rig rig(simulated(), variant), expected(simulated(), variant);
  // The sixth batch is bright and the fifth has no samples: both are the third step's.
  test::FakeOptions options = {.shuffle = false, .dropped = {32, 33, 34, 35, 36, 37, 38, 39}};
  FakeSource good(options);
  options.bright_from_step = 5;
  FakeSource bad(options);
  const auto outcomes = rig.run(bad, 3);
  expected.run(good, 2);
  EXPECT_TRUE(outcomes[2].skipped);
  EXPECT_EQ(rig.hash(), expected.hash());
}

// A batch can't be captured in the middle of a step: what the batches before it left is there all the same.
TEST_F(DeviceStep, ABatchThatCannotBeCapturedGoesOnFromTheGraphsBefore) {
  const Variant variant = {.options = {.accumulate = 3}};
  Rig waiting(simulated(), variant), plain(simulated(), variant);
  int forwards = 0;
  waiting.net->register_forward_hook([&](engine::Module&, const engine::Tensor&, const engine::Tensor& y) {
    if (++forwards >= 8) (void)y.to_doubles();  // the second batch of the step that captures
  });
  FakeSource a({}), b({});
  const auto got = waiting.run(a, 5), expected = plain.run(b, 5);
  EXPECT_NE(waiting.step->graph_reason(), "");
  EXPECT_EQ(plain.step->graph_reason(), "");
  for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i].loss, expected[i].loss) << i;
  EXPECT_EQ(waiting.hash(), plain.hash());
}

// As many graphs as batches; batches of nothing but dropped samples come in the first place, in the middle,
// and in the step that captures.
TEST_F(DeviceStep, StepsOfSeveralBatchesAreGraphsToo) {
  for (const int64_t empty : {-1, 7, 9, 10, 11}) {
    for (const bool skips : {false, true}) {
      SCOPED_TRACE(empty);
      Variant variant = {.optimizer = "adamw",
                         .options = {.accumulate = 3, .clip = 1.0, .seed = 5, .skip_nonfinite = skips},
                         .dropout = 0.2,
                         .ema = 0.9};
      variant.options.graph = GraphMode::kOff;
      Rig eager(simulated(), variant);
      variant.options.graph = GraphMode::kOn;
      Rig graph(simulated(), variant);
      test::FakeOptions options = {.samples = 200, .shuffle = false};
      for (int64_t i = 0; empty >= 0 && i < 8; ++i) options.dropped.insert(empty * 8 + i);
      FakeSource a(options), b(options);
      const auto expected = eager.run(a, 8), got = graph.run(b, 8);
      for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i].loss, expected[i].loss) << i;
      EXPECT_EQ(graph.hash(), eager.hash());
      EXPECT_EQ(hash_tensors(graph.ema->state(), 0), hash_tensors(eager.ema->state(), 0));
      EXPECT_EQ(graph.step->graph_reason(), "");
    }
  }
}

TEST_F(DeviceStep, SkippedStepsOfSeveralBatchesLeaveNoTraceAsGraphs) {
  const Variant variant = {.options = {.accumulate = 2, .skip_nonfinite = true, .graph = GraphMode::kOn}};
  Rig rig(simulated(), variant), expected(simulated(), variant);
  // The tenth batch has no samples, the ninth and all others after it are bright: steps five to seven are
  // skipped.
  test::FakeOptions options = {.samples = 200, .shuffle = false};
  for (int64_t i = 0; i < 8; ++i) options.dropped.insert(9 * 8 + i);
  FakeSource good(options);
  options.bright_from_step = 8;
  FakeSource bad(options);
  const auto outcomes = rig.run(bad, 7);
  expected.run(good, 4);
  EXPECT_FALSE(outcomes[3].skipped);
  EXPECT_TRUE(outcomes[4].skipped && outcomes[5].skipped && outcomes[6].skipped);
  EXPECT_EQ(rig.hash(), expected.hash());
}

}  // namespace
}  // namespace dlpipe::run
