#include "dlpipe/optim.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>

#include "dlpipe/random.h"

namespace dlpipe::engine {
namespace {

double rate(const ScheduleArguments& schedule, int64_t step) {
  return value_or_throw(learning_rate(schedule, step));
}

std::string error_of(const ScheduleArguments& schedule, int64_t step = 0) {
  const auto result = learning_rate(schedule, step);
  if (result.ok()) return "no error";
  EXPECT_EQ(result.status().code(), ErrorCode::kMisuse);
  return result.status().message();
}

TEST(Schedule, EveryOneReachesItsPeak) {
  for (const std::string& name : ScheduleRegistry::builtin().names()) {
    ScheduleArguments schedule = {.name = name, .lr = 0.5, .total_steps = 100};
    double most = 0.0;
    for (int64_t step = 0; step < 100; ++step) most = std::max(most, rate(schedule, step));
    EXPECT_NEAR(most, 0.5, 1e-12) << name;
  }
}

TEST(Schedule, StaysAtItsEndAfterTheLastStep) {
  EXPECT_NEAR(rate({.name = "cosine", .lr = 1.0, .total_steps = 10, .final_ratio = 0.1}, 10), 0.1, 1e-12);
  EXPECT_NEAR(rate({.name = "cosine", .lr = 1.0, .total_steps = 10, .final_ratio = 0.1}, 1000), 0.1, 1e-12);
  EXPECT_NEAR(rate({.name = "one_cycle", .lr = 1.0, .total_steps = 10, .final_ratio = 0.1}, 1000), 0.1,
              1e-12);
  EXPECT_NEAR(rate({.name = "linear", .lr = 1.0, .total_steps = 10, .final_ratio = 0.1}, 1000), 0.1, 1e-12);
}

TEST(Schedule, LinearFallsByTheSameAmountAStep) {
  const ScheduleArguments schedule = {.name = "linear", .lr = 0.5, .total_steps = 20, .warmup_steps = 10};
  for (int step = 0; step <= 10; ++step) EXPECT_NEAR(rate(schedule, 10 + step), 0.05 * (10 - step), 1e-12);
}

TEST(Schedule, WarmsUpLinearlyBeforeAny) {
  for (const std::string name : {"constant", "step", "cosine", "linear"}) {
    const ScheduleArguments schedule = {
        .name = name, .lr = 0.4, .total_steps = 100, .warmup_steps = 10, .warmup_start = 0.5};
    EXPECT_NEAR(rate(schedule, 0), 0.2, 1e-12) << name;
    EXPECT_NEAR(rate(schedule, 5), 0.3, 1e-12) << name;
    EXPECT_NEAR(rate(schedule, 10), 0.4, 1e-12) << name;
  }
}

TEST(Schedule, OneStepRunsAreDefined) {
  for (const std::string& name : ScheduleRegistry::builtin().names()) {
    EXPECT_EQ(rate({.name = name, .lr = 0.3, .total_steps = 1}, 0), 0.3) << name;
  }
  EXPECT_EQ(rate({.name = "cosine", .lr = 0.3, .total_steps = 4, .warmup_steps = 4}, 4), 0.3);
}

TEST(Schedule, OneCyclePeaksWhereAsked) {
  const ScheduleArguments schedule = {.name = "one_cycle", .lr = 1.0, .total_steps = 101, .peak_at = 1.0};
  EXPECT_NEAR(rate(schedule, 100), 1.0, 1e-12);
  const ScheduleArguments at_once = {.name = "one_cycle", .lr = 1.0, .total_steps = 101, .peak_at = 0.0};
  EXPECT_NEAR(rate(at_once, 0), 1.0, 1e-12);
}

// A C library's cosine or power would give other rates with another version of it, and another run.
TEST(Schedule, GivesTheseBitsEverywhere) {
  uint64_t hash = 0;
  for (const std::string& name : ScheduleRegistry::builtin().names()) {
    const ScheduleArguments schedule = {.name = name,
                                        .lr = 0.3,
                                        .total_steps = 997,
                                        .milestones = {100, 200, 300, 400, 500, 600, 700, 800, 900},
                                        .gamma = 0.7,
                                        .final_ratio = 0.01};
    for (int64_t step = 0; step < 1000; ++step)
      hash = philox_mix(hash, std::bit_cast<uint64_t>(rate(schedule, step)));
  }
  EXPECT_EQ(hash, 2225987226201989716u);
}

TEST(Schedule, RefusesWhatMakesNoSense) {
  EXPECT_NE(error_of({.name = "cosin"}).find("did you mean 'cosine'"), std::string::npos);
  EXPECT_NE(error_of({.lr = -1.0}).find("lr is -1"), std::string::npos);
  EXPECT_NE(error_of({.total_steps = 0}).find("step 0 of 0"), std::string::npos);
  EXPECT_NE(error_of({.total_steps = 5}, -1).find("step -1"), std::string::npos);
  EXPECT_NE(error_of({.total_steps = 5, .warmup_steps = 6}).find("warm-up of 6"), std::string::npos);
  EXPECT_NE(error_of({.final_ratio = 2.0}).find("final ratio 2"), std::string::npos);
  EXPECT_NE(error_of({.name = "step", .milestones = {5, 3}}).find("ascend"), std::string::npos);
  EXPECT_NE(error_of({.name = "step", .gamma = 0.0}).find("gamma"), std::string::npos);
  EXPECT_NE(error_of({.name = "one_cycle", .total_steps = 9, .warmup_steps = 1}).find("its own warm-up"),
            std::string::npos);
}

}  // namespace
}  // namespace dlpipe::engine
