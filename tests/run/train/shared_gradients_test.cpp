// What ranks that share the optimizer out hold of the gradients: their share at rest, a few buckets on the way there.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "engine/core/allocator.h"
#include "engine/core/node.h"
#include "run/train/gradients/gradient_sum.h"
#include "run/train/session/model.h"
#include "run/train/session/plans.h"
#include "tests/run/train/ranks_fixture.h"

namespace dlpipe::test {
namespace {

using engine::Tensor;

constexpr int64_t kParameters = 32;
constexpr int64_t kElements = 4 * engine::kShareUnit;
constexpr int64_t kBytes =
    kElements * static_cast<int64_t>(sizeof(float));  // of a parameter, and of a bucket
constexpr int64_t kAll = kParameters * kBytes;

std::vector<engine::NamedTensor> make_parameters() {
  std::vector<engine::NamedTensor> parameters;
  for (int64_t i = 0; i < kParameters; ++i) {
    Tensor parameter = Tensor::zeros({kElements});
    parameter.set_requires_grad(true);
    parameters.push_back({"p" + std::to_string(i), parameter});
  }
  return parameters;
}

/// A step's gradients, as backward has them arrive: of each batch and grain another number, last parameter first.
void walk_back(run::GradientSum& sum, std::vector<engine::NamedTensor>& parameters,
               const run::GradientSum::Form& form, int64_t first_grain) {
  sum.begin_step(0);
  for (int64_t batch = 0; batch < form.batches; ++batch) {
    for (int64_t grain = 0; grain < form.grains; ++grain) {
      sum.begin(batch, grain);
      for (size_t i = parameters.size(); i-- > 0;) {
        const auto value = static_cast<double>(100 * batch + first_grain + grain);
        engine::accumulate_gradient(parameters[i].tensor, Tensor::full({kElements}, value), true);
      }
      sum.end(grain);
    }
  }
}

struct Held {
  int64_t at_rest = 0;            // of all ranks together, after the sums
  int64_t peak = 0;               // the same, at most
  std::vector<int64_t> own = {};  // by rank, as it says itself
};

/// By the allocator's counters, which are those of all ranks: they are threads of one process.
Held measure(int world, int64_t grains, int64_t batches, bool shares) {
  Held held;
  held.own.resize(static_cast<size_t>(world));
  SimulatedNetwork network(world, {.seed = 5, .most_delay_us = 100});
  on_ranks(network, world, [&](Collective& ranks) {
    const run::GradientSum::Form form = {grains / world, batches, &ranks, kBytes, engine::Wire::kF32, shares};
    std::vector<engine::NamedTensor> parameters = make_parameters();
    run::GradientSum sum(parameters, form);
    const auto meet = [&] { EXPECT_TRUE(ranks.barrier("the others").wait().ok()); };
    const bool is_first = ranks.rank() == 0;
    meet();
    int64_t before = 0;
    if (is_first) {
      engine::reset_peak();
      before = static_cast<int64_t>(engine::allocator_statistics().used_bytes);
    }
    meet();
    walk_back(sum, parameters, form, ranks.rank() * form.grains);
    sum.finish();
    meet();
    if (is_first) {
      held.at_rest = static_cast<int64_t>(engine::allocator_statistics().used_bytes) - before;
      held.peak = static_cast<int64_t>(engine::allocator_statistics().peak_used_bytes) - before;
    }
    meet();
    int64_t own = 0;
    for (const Tensor& gradient : sum.own()) {
      own += static_cast<int64_t>(gradient.size_bytes());
      // Of grains 0 to n - 1, in batches that add 100 to each.
      const auto total = static_cast<float>(batches * grains * (grains - 1) / 2 +
                                            grains * 100 * batches * (batches - 1) / 2);
      const float* const values = gradient.data<float>();
      EXPECT_TRUE(std::all_of(values, values + gradient.elements(), [&](float v) { return v == total; }));
    }
    held.own[static_cast<size_t>(ranks.rank())] = own;
    EXPECT_TRUE(ranks.close().ok());
  });
  return held;
}

TEST(SharedGradients, AtRestARankHoldsTheSumsOfItsShareAloneWithinFivePercent) {
  struct Case {
    int world;
    int64_t grains, batches;
  };
  for (const auto& [world, grains, batches] :
       {Case{2, 2, 1}, Case{4, 4, 1}, Case{8, 8, 1}, Case{2, 8, 1}, Case{4, 8, 3}}) {
    SCOPED_TRACE(std::to_string(world) + " ranks, " + std::to_string(grains) + " grains, " +
                 std::to_string(batches) + " batches");
    const Held held = measure(world, grains, batches, true);
    EXPECT_GE(held.at_rest, kAll);
    EXPECT_LE(static_cast<double>(held.at_rest), 1.05 * kAll);
    for (const int64_t own : held.own)
      EXPECT_NEAR(static_cast<double>(own) * world / static_cast<double>(kAll), 1.0, 0.05);
    EXPECT_GE(measure(world, grains, batches, false).at_rest, world * kAll) << "each rank has all sums";
  }
}

// With a grain per rank: beside the shares three buckets of sums, and of gradients the one that arrives and the one before it.
TEST(SharedGradients, WhileBackwardGoesOnARankHoldsFewBuckets) {
  for (const int world : {2, 4, 8}) {
    const auto buckets = static_cast<int64_t>(run::GradientSum::kBucketsAtOnce);
    EXPECT_LE(measure(world, world, 1, true).peak, kAll * 21 / 20 + world * (buckets + 2) * kBytes) << world;
  }
}

// A tree over grains needs whole blocks between grains: one with two of them, two with four.
TEST(SharedGradients, ARankOfSeveralGrainsHoldsTheirPartialSumsToo) {
  for (const int64_t grains : {2, 4}) {
    const run::GradientSum::Form form = {grains, 1, nullptr, kBytes};
    const int64_t peak = measure(2, 2 * grains, 1, true).peak;
    const int64_t levels = grains / 2;
    EXPECT_GT(peak, 2 * levels * kAll);
    EXPECT_LE(peak, 2 * levels * kAll + kAll * 21 / 20 + 2 * 6 * kBytes);
    EXPECT_EQ(run::GradientSum::bytes(form, make_parameters()), static_cast<uint64_t>((levels + 1) * kAll));
  }
}

TEST(SharedGradients, AFrozenParameterTakesNoMemory) {
  std::vector<engine::NamedTensor> parameters = make_parameters();
  parameters.front().tensor.set_requires_grad(false);
  EXPECT_EQ(run::GradientSum::bytes({}, parameters), static_cast<uint64_t>(kAll - kBytes));
}

class SharedGradientsTest : public RanksTest {};

TEST_F(SharedGradientsTest, AnyNumberOfRanksComputesTheSameWeights) {
  run::TrainConfig config = small("");
  config.optimizer = "adamw";
  config.shard_optimizer = true;
  config.clip = 0.1;
  config.ema = 0.9;
  config.bucket_mb = 0.01;
  expect_same_run(config, {2, 4, 8});
}

// Gradients of one parameter then come from grain after grain, before those of the layer below.
TEST_F(SharedGradientsTest, SoDoGrainsThatShareBatchNormsStatistics) {
  run::TrainConfig config = small("");
  config.model = "cifarnet";
  config.shard_optimizer = true;
  config.sync_bn = true;
  config.batch = 32;
  config.accumulate = 2;
  config.bucket_mb = 0.1;
  config.max_steps = 2;
  config.val_every = "never";
  expect_same_run(config, {2, 8});
}

TEST_F(SharedGradientsTest, SoDoActivationsThatAreMadeAgain) {
  run::TrainConfig config = small("");
  config.model = "cifarnet";
  config.shard_optimizer = true;
  config.checkpoint_activations = {"*"};
  config.batch = 32;
  config.bucket_mb = 0.1;
  config.max_steps = 2;
  config.val_every = "never";
  expect_same_run(config, {4});
}

// The others find it out in the middle of a backward that waits for the bucket before last.
TEST_F(SharedGradientsTest, ARankThatDiesEndsTheRunAndKeepsTheCheckpoint) {
  run::TrainConfig config = small("");
  config.shard_optimizer = true;
  config.bucket_mb = 0.01;
  message_when_a_rank_dies(config, 1000);
}

TEST_F(SharedGradientsTest, TheOutcomeSaysWhatEachRankHeld) {
  const run::TrainOutcome outcome = one_shared_step();
  ASSERT_EQ(outcome.gradient_bytes.size(), 4U);
  for (size_t rank = 0; rank < 4; ++rank) {
    EXPECT_GT(outcome.gradient_bytes[rank], 0);
    EXPECT_EQ(outcome.optimizer_bytes[rank], 2 * outcome.gradient_bytes[rank] + 8)
        << "two moments, and the steps";
  }
}

TEST_F(SharedGradientsTest, TheMemoryPlanCountsAShareAndTheBucketsOnTheirWay) {
  run::TrainConfig config = small("");
  config.model = "cifarnet";
  config.optimizer = "adamw";
  config.grains = 4;
  config.bucket_mb = 0.1;
  const auto plan_of = [](const run::TrainConfig& c, Collective& ranks) {
    const run::SessionOptions options = run::resolve_options(c, {}, {}, &ranks);
    const run::SessionData data = run::open_data(options);
    return run::plan_memory(options, data, *run::build_model(options, data));
  };
  SimulatedNetwork network(4, {});
  on_ranks(network, 4, [&](Collective& ranks) {
    const bool is_first = ranks.rank() == 0;  // the kernel table is the whole program's
    const run::GradientSum::Form form = {1, 1, &ranks, kBytes, engine::Wire::kF32, true};
    EXPECT_EQ(run::GradientSum::bytes(form, make_parameters()), static_cast<uint64_t>(kAll / 4 + 3 * kBytes));
    if (is_first) {
      run::TrainConfig shared = config;
      shared.shard_optimizer = true;
      const run::MemoryPlan whole = plan_of(config, ranks), share = plan_of(shared, ranks);
      EXPECT_GT(share.gradients, whole.gradients / 4);
      EXPECT_LE(share.gradients, whole.gradients) << "buckets are no smaller than the largest parameters";
      EXPECT_EQ(share.optimizer, whole.optimizer / 4);
    }
    EXPECT_TRUE(ranks.close().ok());
  });
}

}  // namespace
}  // namespace dlpipe::test
