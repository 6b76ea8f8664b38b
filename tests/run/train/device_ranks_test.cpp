// Steps of several ranks, each with a device of its own, the simulated one: the weights of one rank that computes all grains,
// bit for bit, and nearly those of the host.
#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "run/input/batch_input.h"
#include "run/train/gradients/gradient_sum.h"
#include "tests/run/device_ranks.h"
#include "tests/run/device_step_fixture.h"

namespace dlpipe::run {
namespace {

using test::device_of_rank;
using test::DeviceStep;
using test::expect_near;
using test::FakeOptions;
using test::FakeSource;
using test::on_ranks_with_devices;
using test::Rig;
using test::simulated;
using test::Variant;

constexpr int64_t kSteps = 5;

/// What a rank ends with.
struct Trained {
  uint64_t hash = 0;
  std::vector<StepOutcome> outcomes;
  std::string error;
};

/// Steps on this rank's share of each batch of `source`.
std::vector<StepOutcome> train(Rig& rig, Device& device, int rank, int world, const FakeOptions& options) {
  FakeSource source(options);
  std::vector<StepOutcome> outcomes;
  for (int64_t step = 0; step < kSteps; ++step) {
    const std::optional<Batch> batch = value_or_throw(source.next());
    rig.step->run(batch_input(*batch, device).part(rank, world), step, 0.05);
    throw_if_error(source.release(*batch));
    while (auto outcome = rig.step->take_outcome()) outcomes.push_back(*std::move(outcome));
  }
  while (auto outcome = rig.step->take_outcome(true)) outcomes.push_back(*std::move(outcome));
  return outcomes;
}

/// Rank 0's; all ranks have to have the same weights, losses and errors.
Trained train_on(int world, Variant variant, const FakeOptions& options = {}, bool exact = true) {
  variant.options.grains = 4;
  test::SumsMeeting meeting;
  std::vector<Trained> all(static_cast<size_t>(world));
  on_ranks_with_devices(world, [&](engine::Collective* ranks, SimulatedDevice& device) {
    Variant own = variant;
    own.options.ranks = ranks;
    std::optional<test::ThreadSums> sums;
    if (!exact && ranks != nullptr) own.options.device_sums = &sums.emplace(meeting, *ranks);
    const int rank = ranks != nullptr ? ranks->rank() : 0;
    Trained& trained = all[static_cast<size_t>(rank)];
    Rig rig(device, own);
    try {
      trained.outcomes = train(rig, device, rank, world, options);
    } catch (const Error& error) {
      trained.error = error.what();
    }
    trained.hash = rig.hash();
    if (rig.ema != nullptr) trained.hash = hash_tensors(rig.ema->state(), trained.hash);
  });
  for (const Trained& one : all) {
    EXPECT_EQ(one.hash, all[0].hash);
    EXPECT_EQ(one.error, all[0].error);
    EXPECT_EQ(one.outcomes.size(), all[0].outcomes.size());
  }
  return all[0];
}

std::vector<Variant> rank_variants() {
  return {{.name = "sgd"},
          {.name = "adamw, dropout, average",
           .optimizer = "adamw",
           .options = {.seed = 5},
           .dropout = 0.4,
           .ema = 0.8},
          {.name = "clipped", .options = {.clip = 0.1}},
          {.name = "accumulated", .options = {.accumulate = 2}},
          {.name = "bf16 on the wire", .options = {.wire = engine::Wire::kBf16}},
          {.name = "small buckets", .options = {.bucket_bytes = 300}},
          {.name = "f16", .options = {.dtype = DType::kF16}}};
}

class DeviceRanks : public DeviceStep {};

TEST_F(DeviceRanks, AnyNumberOfThemComputesTheSameWeights) {
  for (const Variant& variant : rank_variants()) {
    SCOPED_TRACE(variant.name);
    const Trained alone = train_on(1, variant, {.dropped = {3, 17}});
    ASSERT_EQ(alone.outcomes.size(), size_t{kSteps}) << alone.error;
    for (const int world : {2, 4}) {
      SCOPED_TRACE(world);
      const Trained together = train_on(world, variant, {.dropped = {3, 17}});
      EXPECT_EQ(together.hash, alone.hash);
      ASSERT_EQ(together.outcomes.size(), alone.outcomes.size()) << together.error;
      for (size_t i = 0; i < alone.outcomes.size(); ++i) {
        EXPECT_EQ(together.outcomes[i].loss, alone.outcomes[i].loss) << i;
        EXPECT_EQ(together.outcomes[i].samples, alone.outcomes[i].samples) << i;
      }
    }
  }
}

TEST_F(DeviceRanks, GrainsGiveTheHostsLossesAndWeights) {
  for (const Variant& variant : rank_variants()) {
    if (variant.options.dtype != DType::kF32) continue;  // the host has no f16
    SCOPED_TRACE(variant.name);
    Variant cut = variant;
    cut.options.grains = 4;
    Rig here(cpu_device(), cut), there(simulated(), cut);
    const auto expected = train(here, cpu_device(), 0, 1, {.dropped = {3, 17}});
    const auto got = train(there, simulated(), 0, 1, {.dropped = {3, 17}});
    ASSERT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < got.size(); ++i)
      EXPECT_NEAR(got[i].loss, expected[i].loss, 1e-4 * (1 + expected[i].loss)) << i;
    const bool is_rounded = variant.options.wire == engine::Wire::kBf16;
    expect_near(there.net->state_dict(), here.net->state_dict(), is_rounded ? 2e-2 : 1e-3);
    EXPECT_NE(there.step->graph_reason(), "");
  }
}

TEST_F(DeviceRanks, AllSkipAStepWhereOneHasANumberThatIsNotFinite) {
  const Variant variant = {.optimizer = "adamw", .options = {.skip_nonfinite = true}, .ema = 0.9};
  for (const int64_t row : {-1, 0, 5}) {  // of all ranks, of the first, of the third
    SCOPED_TRACE(row);
    const FakeOptions bright = {.bright_from_step = 3, .bright_row = row};
    const Trained alone = train_on(1, variant, bright), together = train_on(4, variant, bright);
    EXPECT_EQ(together.hash, alone.hash);
    ASSERT_EQ(together.outcomes.size(), size_t{kSteps});
    for (size_t i = 0; i < together.outcomes.size(); ++i)
      EXPECT_EQ(together.outcomes[i].skipped, i >= 3) << i;
  }
}

TEST_F(DeviceRanks, AllEndWithTheLayerOfTheFirst) {
  for (const int64_t row : {-1, 6}) {  // of both ranks, of the second alone
    SCOPED_TRACE(row);
    const FakeOptions bright = {.bright_from_step = 3, .bright_row = row};
    const Trained alone = train_on(1, {}, bright), together = train_on(2, {}, bright);
    EXPECT_EQ(together.hash, alone.hash);
    EXPECT_EQ(together.error, alone.error);
    EXPECT_NE(together.error.find("step 4"), std::string::npos) << together.error;
    EXPECT_NE(together.error.find("bn"), std::string::npos) << together.error;
  }
}

// In another order of adding, which the weights show; the ranks still agree to the bit.
TEST_F(DeviceRanks, SumsOfTheDevicesOwnAreNearlyTheExactOnes) {
  for (const int64_t bucket_bytes : {int64_t{300}, int64_t{25} << 20}) {
    const Variant variant = {
        .optimizer = "adamw", .options = {.bucket_bytes = bucket_bytes, .clip = 0.5}, .ema = 0.8};
    const Trained exact = train_on(4, variant, {.dropped = {3, 17}});
    const Trained own = train_on(4, variant, {.dropped = {3, 17}}, false);
    ASSERT_EQ(own.outcomes.size(), exact.outcomes.size()) << own.error;
    EXPECT_NE(own.hash, exact.hash);
    for (size_t i = 0; i < own.outcomes.size(); ++i)
      EXPECT_NEAR(own.outcomes[i].loss, exact.outcomes[i].loss, 1e-4 * (1 + exact.outcomes[i].loss)) << i;
  }
}

TEST_F(DeviceRanks, ARankThatSumsNoMoreEndsTheOthersWait) {
  test::SumsMeeting meeting;
  on_ranks_with_devices(2, [&](engine::Collective* ranks, SimulatedDevice& device) {
    test::ThreadSums sums(meeting, *ranks);
    const engine::Tensor values = engine::Tensor::full({64}, 1.0, DType::kF32, device);
    {
      DeviceTravel travel(device, sums, 0.2);
      if (ranks->rank() == 0) {
        travel.leave(values);
        try {
          travel.arrive("gradients of step 3");
          ADD_FAILURE() << "no error";
        } catch (const Error& error) {
          EXPECT_NE(
              std::string(error.what()).find("0.2 s (--peer-timeout) while waiting for gradients of step 3"),
              std::string::npos)
              << error.what();
        }
      }
    }  // ends the sum that waits for rank 1
    EXPECT_TRUE(ranks->barrier("the end").wait().ok());
  });
}

// Gradients go to the host and back behind the device's work; losses are what the host waits for.
TEST_F(DeviceRanks, AStepThatWantsAGraphIsRefusedWithTheReason) {
  Variant variant = {.options = {.grains = 4, .graph = GraphUse::kOn}};
  Rig rig(simulated(), variant);
  FakeSource source({});
  try {
    rig.run(source, 1);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("several grains"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace dlpipe::run
