// Training steps on the simulated device with CUDA's kernels: a net, an optimizer and their step, to be
// compared with those of the host or of other options.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/core/device_memory.h"
#include "run/record/checkpoint.h"
#include "run/train/step/train_step.h"
#include "tests/base/device/violations.h"
#include "tests/engine/cuda/simulated.h"
#include "tests/run/fake_source.h"
#include "tests/run/small_net.h"

namespace dlpipe::test {

/// The device's violations are failures.
class DeviceStep : public testing::Test {
 protected:
  void TearDown() override {
    engine::synchronize(simulated());
    expect_no_violations(simulated());
  }
  engine::SimulatedCuda kernels_{simulated()};
};

/// What varies from test to test.
struct Variant {
  const char* name = "";
  std::string optimizer = "sgd";
  engine::OptimizerArguments arguments = {};
  run::TrainStepOptions options = {};
  double dropout = 0;
  double ema = 0;
  const char* loss = "cross_entropy";
};

/// A small net with all that steps of it need.
struct Rig {
  Rig(Device& device, const Variant& variant)
      : net(small_net(8, 4, 1, variant.dropout)), options(variant.options) {
    options.loss = *run::find_loss(variant.loss);
    net->to(device);
    optimizer = (*engine::find_optimizer(variant.optimizer))->build(net->parameters(), variant.arguments);
    if (variant.ema > 0) ema = std::make_unique<engine::Ema>(*net, variant.ema);
    step = run::TrainStep::create(*net, *optimizer, ema.get(), options);
    net->train();
  }
  /// Asks for `count` steps and answers all their outcomes.
  std::vector<run::StepOutcome> run(BatchSource& source, int64_t count, double lr = 0.05) {
    std::vector<run::StepOutcome> outcomes;
    for (int64_t i = 0; i < count; ++i) {
      EXPECT_NE(step->run(source, i, lr), nullptr);
      while (auto outcome = step->take_outcome()) outcomes.push_back(*std::move(outcome));
    }
    while (auto outcome = step->take_outcome(true)) outcomes.push_back(*std::move(outcome));
    return outcomes;
  }
  uint64_t hash() const {
    return run::hash_tensors(net->state_dict(), run::hash_tensors(optimizer->state(), 0));
  }

  std::shared_ptr<engine::Module> net;
  run::TrainStepOptions options;
  std::unique_ptr<engine::Optimizer> optimizer;
  std::unique_ptr<engine::Ema> ema;
  std::unique_ptr<run::TrainStep> step;
};

inline void expect_near(const std::vector<engine::NamedTensor>& got,
                        const std::vector<engine::NamedTensor>& expected, double tolerance) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].name, expected[i].name);
    const std::vector<double> a = got[i].tensor.to_doubles(), b = expected[i].tensor.to_doubles();
    ASSERT_EQ(a.size(), b.size());
    for (size_t k = 0; k < a.size(); ++k)
      ASSERT_NEAR(a[k], b[k], tolerance * (1 + std::abs(b[k]))) << got[i].name << " " << k;
  }
}

}  // namespace dlpipe::test
