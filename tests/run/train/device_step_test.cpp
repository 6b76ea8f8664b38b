// Training steps on a device, the simulated one with CUDA's kernels as plain C++: the host's values, nothing
// that waits.
#include <gtest/gtest.h>

#include <cmath>
#include <iostream>

#include "dlpipe/log.h"
#include "tests/run/device_step_fixture.h"

namespace dlpipe::run {
namespace {

using test::DeviceStep;
using test::expect_near;
using test::FakeSource;
using test::Rig;
using test::simulated;
using test::Variant;
using GraphMode = GraphUse;

std::vector<Variant> variants() {
  engine::OptimizerArguments nesterov;
  nesterov.nesterov = true;
  nesterov.weight_decay = 0.01;
  nesterov.decay_vectors = false;
  nesterov.lr_scales = {{"fc2.*", 0.5}};
  engine::OptimizerArguments plain;
  plain.momentum = 0;
  return {{.name = "sgd"},
          {.name = "plain sgd", .arguments = plain},
          {.name = "nesterov, groups", .arguments = nesterov},
          {.name = "adamw", .optimizer = "adamw", .arguments = nesterov},
          {.name = "lamb", .optimizer = "lamb", .arguments = nesterov},
          {.name = "clipped", .options = {.clip = 0.1}},
          {.name = "accumulated", .options = {.accumulate = 3}},
          {.name = "dropout", .options = {.seed = 5}, .dropout = 0.4},
          {.name = "average", .ema = 0.8},
          {.name = "squares", .loss = "mse"}};
}

TEST_F(DeviceStep, GivesTheHostsLossesAndWeights) {
  for (const Variant& variant : variants()) {
    SCOPED_TRACE(variant.name);
    Rig here(cpu_device(), variant), there(simulated(), variant);
    FakeSource source_here({.dropped = {3, 17}}), source_there({.dropped = {3, 17}});
    const auto expected = here.run(source_here, 6), got = there.run(source_there, 6);
    ASSERT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_EQ(got[i].step, static_cast<int64_t>(i));
      EXPECT_NEAR(got[i].loss, expected[i].loss, 1e-4 * (1 + expected[i].loss)) << i;
      EXPECT_EQ(got[i].samples, expected[i].samples);
    }
    expect_near(there.net->state_dict(), here.net->state_dict(), 1e-3);
    expect_near(there.optimizer->state(), here.optimizer->state(), 1e-3);
    if (here.ema != nullptr) expect_near(there.ema->state(), here.ema->state(), 1e-3);
    EXPECT_EQ(there.optimizer->steps(), here.optimizer->steps());
  }
}

TEST_F(DeviceStep, IsTheSameBitsEveryTime) {
  Variant variant = {.options = {.clip = 1.0, .seed = 2}, .dropout = 0.3, .ema = 0.9};
  Rig first(simulated(), variant), second(simulated(), variant);
  FakeSource a({}), b({});
  first.run(a, 5);
  second.run(b, 5);
  EXPECT_EQ(first.hash(), second.hash());
  EXPECT_EQ(hash_tensors(first.ema->state(), 0), hash_tensors(second.ema->state(), 0));
}

// Steps after the first: the first makes memory, which goes to the device through a wait.
TEST_F(DeviceStep, NothingWaitsForTheDevice) {
  for (const DType dtype : {DType::kF32, DType::kF16}) {
    Rig rig(simulated(),
            {.options = {.clip = 1.0, .dtype = dtype, .skip_nonfinite = true}, .dropout = 0.3, .ema = 0.9});
    FakeSource source({});
    const std::optional<Batch> batch = *source.next();
    const BatchInput input = batch_input(*batch, simulated());
    rig.step->run(input, 0, 0.1);
    EXPECT_TRUE(rig.step->take_outcome(true).has_value());
    {
      const SimulatedDevice::Step step(simulated());
      rig.step->run(input, 1, 0.1);
      rig.step->run(input, 2, 0.1);
    }
    EXPECT_EQ(rig.step->take_outcome(true)->step, 1);
    EXPECT_EQ(rig.step->take_outcome(true)->step, 2);
  }
}

TEST_F(DeviceStep, ANonfiniteStepEndsTheRunWithItsLayer) {
  Rig rig(simulated(), {});
  FakeSource source({.bright_from_step = 2});
  try {
    rig.run(source, 6);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNonfinite);
    const std::string text = error.what();
    EXPECT_NE(text.find("step 3"), std::string::npos) << text;
    EXPECT_NE(text.find("bn"), std::string::npos) << text;
  }
  // As they were after step 1, whatever was asked for meanwhile.
  Rig expected(simulated(), {});
  FakeSource good({});
  expected.run(good, 2);
  expect_near(rig.net->parameters(), expected.net->parameters(), 0);
}

TEST_F(DeviceStep, ASkippedStepLeavesNoTrace) {
  const Variant variant = {.optimizer = "adamw", .options = {.skip_nonfinite = true}, .ema = 0.9};
  Rig rig(simulated(), variant), expected(simulated(), variant);
  FakeSource bad({.bright_from_step = 2}), good({});
  const auto outcomes = rig.run(bad, 4);
  expected.run(good, 2);
  ASSERT_EQ(outcomes.size(), 4u);
  for (int64_t i = 0; i < 4; ++i) {
    EXPECT_EQ(outcomes[static_cast<size_t>(i)].skipped, i >= 2) << i;
    EXPECT_EQ(outcomes[static_cast<size_t>(i)].reason.empty(), i < 2) << i;
  }
  EXPECT_EQ(rig.hash(), expected.hash());
  EXPECT_EQ(hash_tensors(rig.ema->state(), 0), hash_tensors(expected.ema->state(), 0));
}

TEST_F(DeviceStep, LoadingAStateKeepsTheLearningRate) {
  Rig rig(simulated(), {});
  FakeSource source({});
  rig.run(source, 1);
  rig.optimizer->set_rate_on_device(0.5);
  rig.optimizer->load_state(rig.optimizer->state());
  for (engine::NamedTensor& parameter : rig.net->parameters())
    parameter.tensor.set_grad(engine::Tensor::full(parameter.tensor.shape(), 1, DType::kF32, simulated()));
  const uint64_t before = hash_tensors(rig.net->state_dict(), 0);
  rig.optimizer->step_on_device({});
  EXPECT_NE(hash_tensors(rig.net->state_dict(), 0), before);
}

TEST_F(DeviceStep, StateMovesBetweenDevices) {
  for (const char* optimizer : {"sgd", "adam", "lamb"}) {
    const Variant variant = {.optimizer = optimizer};
    Rig here(cpu_device(), variant), there(simulated(), variant), back(cpu_device(), variant);
    FakeSource source({});
    here.run(source, 2);
    there.net->load_state_dict(here.net->state_dict());
    there.optimizer->load_state(here.optimizer->state());
    EXPECT_EQ(there.hash(), here.hash());
    EXPECT_EQ(there.optimizer->steps(), 2);
    FakeSource again({});
    there.run(again, 1);
    back.net->load_state_dict(there.net->state_dict());
    back.optimizer->load_state(there.optimizer->state());
    EXPECT_EQ(back.hash(), there.hash());
    EXPECT_EQ(back.optimizer->steps(), 3);
  }
}

TEST_F(DeviceStep, AsOneGraphItIsTheSameBits) {
  for (const char* optimizer : {"sgd", "adamw", "lamb", "muon"}) {
    for (const bool skips : {false, true}) {
      Variant variant = {
          .optimizer = optimizer, .options = {.clip = 1.0, .skip_nonfinite = skips}, .ema = 0.9};
      variant.arguments.muon.patterns = {"fc*.weight"};
      variant.options.graph = GraphMode::kOff;
      Rig eager(simulated(), variant);
      variant.options.graph = GraphMode::kOn;
      Rig graph(simulated(), variant);
      // The fifth batch's samples are all dropped: that step is done by itself.
      const test::FakeOptions options = {.shuffle = false, .dropped = {32, 33, 34, 35, 36, 37, 38, 39}};
      FakeSource a(options), b(options);
      const auto expected = eager.run(a, 9), got = graph.run(b, 9);
      for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i].loss, expected[i].loss) << i;
      EXPECT_EQ(graph.hash(), eager.hash());
      EXPECT_EQ(hash_tensors(graph.ema->state(), 0), hash_tensors(eager.ema->state(), 0));
      EXPECT_EQ(graph.step->graph_reason(), "");
      EXPECT_EQ(eager.step->graph_reason(), "--graph off");
    }
  }
}

// Every launch draws the step's masks: the host's, and those of a step that runs by itself, also where a part
// of the forward runs again in backward.
TEST_F(DeviceStep, AGraphDrawsDropoutAnew) {
  for (const char* recomputed : {"", "drop", "*"}) {
    SCOPED_TRACE(recomputed);
    Variant variant = {.options = {.seed = 5}, .dropout = 0.4};
    Rig here(cpu_device(), variant);
    variant.options.graph = GraphMode::kOff;
    Rig eager(simulated(), variant);
    variant.options.graph = GraphMode::kOn;
    Rig graph(simulated(), variant);
    if (*recomputed != '\0') {
      for (Rig* rig : {&here, &eager, &graph}) ASSERT_GT(rig->net->checkpoint_activations(recomputed), 0);
    }
    FakeSource a({}), b({}), c({});
    const auto on_host = here.run(a, 8), expected = eager.run(b, 8), got = graph.run(c, 8);
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_EQ(got[i].loss, expected[i].loss) << i;
      EXPECT_NEAR(got[i].loss, on_host[i].loss, 1e-4 * (1 + on_host[i].loss)) << i;
    }
    EXPECT_EQ(graph.hash(), eager.hash());
    EXPECT_EQ(graph.step->graph_reason(), "");
    expect_near(graph.net->state_dict(), here.net->state_dict(), 1e-3);
  }
}

TEST_F(DeviceStep, SquaresAreCapturedToo) {
  Variant variant = {.options = {.graph = GraphMode::kOff}, .loss = "mse"};
  Rig eager(simulated(), variant);
  variant.options.graph = GraphMode::kOn;
  Rig graph(simulated(), variant);
  FakeSource a({}), b({});
  eager.run(a, 6);
  graph.run(b, 6);
  EXPECT_EQ(graph.hash(), eager.hash());
}

TEST_F(DeviceStep, AGraphSkipsBadStepsToo) {
  const Variant variant = {.options = {.skip_nonfinite = true, .graph = GraphMode::kOn}};
  Rig rig(simulated(), variant), expected(simulated(), variant);
  FakeSource bad({.bright_from_step = 5}), good({});
  const auto outcomes = rig.run(bad, 7);
  expected.run(good, 5);
  EXPECT_FALSE(outcomes[4].skipped);
  EXPECT_TRUE(outcomes[5].skipped && outcomes[6].skipped);
  EXPECT_EQ(rig.hash(), expected.hash());
}

TEST_F(DeviceStep, WhatCannotBeCapturedSaysWhy) {
  const auto reads_on_the_host = [](engine::Module&, const engine::Tensor&, const engine::Tensor& y) {
    (void)y.to_doubles();
  };
  for (const int64_t accumulate : {1, 3}) {
    Variant variant = {.options = {.accumulate = accumulate}};
    Rig waiting(simulated(), variant), plain(simulated(), variant);
    waiting.net->register_forward_hook(reads_on_the_host);
    FakeSource a({}), b({});
    EXPECT_EQ(waiting.run(a, 5).size(), 5u);
    EXPECT_NE(waiting.step->graph_reason().find("host"), std::string::npos) << waiting.step->graph_reason();
    plain.run(b, 5);
    EXPECT_EQ(waiting.hash(), plain.hash());
    variant.options.graph = GraphMode::kOn;
    Rig strict(simulated(), variant);
    strict.net->register_forward_hook(reads_on_the_host);
    FakeSource c({});
    EXPECT_THROW(strict.run(c, 4), Error);
  }
  Rig many(simulated(), {.options = {.accumulate = TrainStep::kMostGraphs + 1}});
  EXPECT_NE(many.step->graph_reason().find("accumulate"), std::string::npos);
}

TEST_F(DeviceStep, InF16ItIsNearTheHostsF32) {
  for (const Variant& variant : variants()) {
    SCOPED_TRACE(variant.name);
    Variant half = variant;
    half.options.dtype = DType::kF16;
    Rig here(cpu_device(), variant), there(simulated(), half);
    FakeSource source_here({}), source_there({});
    const auto expected = here.run(source_here, 6), got = there.run(source_there, 6);
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_FALSE(got[i].skipped) << i;
      EXPECT_EQ(got[i].loss_scale, 65536) << i;
      EXPECT_NEAR(got[i].loss, expected[i].loss, 3e-3 * (1 + expected[i].loss))
          << i;  // 11 bits of significand
    }
    // Adam's steps are of one size whatever the gradient's, so that tiny ones are where f16 shows most.
    expect_near(there.net->parameters(), here.net->parameters(), variant.optimizer == "adamw" ? 1e-1 : 2e-2);
  }
}

// Gradients times 2^26 are beyond f16. Each such step halves the scale and leaves no other trace.
TEST_F(DeviceStep, AnOverflowHalvesTheScaleAndTheRunGoesOn) {
  for (const char* optimizer : {"sgd", "adamw", "muon"}) {
    SCOPED_TRACE(optimizer);
    Variant variant = {.optimizer = optimizer, .options = {.clip = 1.0, .dtype = DType::kF16}, .ema = 0.9};
    variant.arguments.muon.patterns = {"fc*.weight"};
    Rig rig(simulated(), variant);
    rig.step->scaler()->set_state({0x1p26f, 5});
    const auto weights = [&] { return hash_tensors(rig.net->parameters(), 0); };
    FakeSource source({});
    double scale = 0x1p26;
    int64_t overflowed = 0, good_steps = 5;
    for (int64_t i = 0; i < 16; ++i) {
      const uint64_t before = weights();
      ASSERT_NE(rig.step->run(source, i, 0.05), nullptr);
      const StepOutcome outcome = *rig.step->take_outcome(true);
      EXPECT_TRUE(std::isfinite(outcome.loss));
      EXPECT_EQ(outcome.overflowed, outcome.skipped);
      EXPECT_EQ(weights() == before, outcome.skipped) << i;
      overflowed += outcome.skipped ? 1 : 0;
      good_steps = outcome.skipped ? 0 : good_steps + 1;
      if (outcome.skipped) scale /= 2;
      EXPECT_EQ(outcome.loss_scale, scale) << i;
    }
    EXPECT_GT(overflowed, 3);
    EXPECT_LT(overflowed, 12);
    EXPECT_EQ(rig.optimizer->steps(), 16 - overflowed);
    EXPECT_EQ(rig.step->scaler()->state().good_steps, good_steps);
    std::cerr << optimizer << ": " << overflowed << " steps overflowed, scale " << scale << '\n';
  }
}

TEST_F(DeviceStep, InF16ALossThatIsNotFiniteEndsTheRun) {
  Rig rig(simulated(), {.options = {.dtype = DType::kF16}});
  FakeSource source({.bright_from_step = 2});
  try {
    rig.run(source, 6);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNonfinite);
    EXPECT_NE(std::string(error.what()).find("step 3"), std::string::npos) << error.what();
  }
}

TEST_F(DeviceStep, InF16AsOneGraphItIsTheSameBits) {
  for (const bool skips : {false, true}) {
    Variant variant = {.options = {.clip = 1.0, .dtype = DType::kF16, .skip_nonfinite = skips}, .ema = 0.9};
    variant.options.graph = GraphMode::kOff;
    Rig eager(simulated(), variant);
    variant.options.graph = GraphMode::kOn;
    Rig graph(simulated(), variant);
    // Skipped eagerly and in the graph; then the 2000th good step in a row, whose larger scale is too large.
    for (Rig* rig : {&eager, &graph}) rig->step->scaler()->set_state({0x1p26f, 0});
    FakeSource a({}), b({});
    const auto first = eager.run(a, 16), second = graph.run(b, 16);
    for (Rig* rig : {&eager, &graph}) {
      const engine::GradScaler::State state = rig->step->scaler()->state();
      rig->step->scaler()->set_state({state.scale, 1997});
    }
    const auto third = eager.run(a, 9), fourth = graph.run(b, 9);
    int64_t overflowed = 0;
    for (const auto& [expected, got] : {std::pair(first, second), std::pair(third, fourth)}) {
      ASSERT_EQ(got.size(), expected.size());
      for (size_t i = 0; i < got.size(); ++i) {
        EXPECT_EQ(got[i].loss, expected[i].loss) << i;
        EXPECT_EQ(got[i].loss_scale, expected[i].loss_scale) << i;
        EXPECT_EQ(got[i].overflowed, expected[i].overflowed) << i;
        overflowed += got[i].overflowed ? 1 : 0;
      }
    }
    EXPECT_GT(overflowed, 3) << "some in the captured step";
    EXPECT_EQ(third[2].loss_scale, 2 * first.back().loss_scale) << "the third was the 2000th";
    EXPECT_EQ(graph.hash(), eager.hash());
    EXPECT_EQ(hash_tensors(graph.ema->state(), 0), hash_tensors(eager.ema->state(), 0));
    EXPECT_EQ(graph.step->graph_reason(), "");
  }
}

TEST_F(DeviceStep, FrozenParametersStay) {
  Rig rig(simulated(), {});
  ASSERT_GT(rig.net->freeze("fc1.*"), 0);
  const auto frozen = [&] {
    std::vector<double> values;
    for (const auto& parameter : rig.net->parameters()) {
      if (parameter.name == "fc1.weight") values = parameter.tensor.to_doubles();
    }
    return values;
  };
  const std::vector<double> before = frozen();
  FakeSource source({});
  rig.run(source, 2);
  EXPECT_EQ(frozen(), before);
}

}  // namespace
}  // namespace dlpipe::run
