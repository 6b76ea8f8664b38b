// Optimizers, clipping, averages and schedules against torch.optim's.
#include "dlpipe/optim.h"

#include <gtest/gtest.h>

#include "dlpipe/layers.h"
#include "tests/parity/formula.h"
#include "tests/parity/golden.h"

namespace dlpipe::engine::parity {
namespace {

const Shape kShapeA = {3, 5};
const Shape kShapeB = {7};

std::vector<NamedTensor> make_parameters() {
  std::vector<NamedTensor> all = {{"a", noise_tensor("weight.a", kShapeA)},
                                  {"b", noise_tensor("weight.b", kShapeB)}};
  for (NamedTensor& parameter : all) parameter.tensor.set_requires_grad(true);
  return all;
}

void set_gradients(std::vector<NamedTensor>& parameters, int step) {
  for (NamedTensor& parameter : parameters) {
    parameter.tensor.set_grad(
        noise_tensor("grad." + std::to_string(step) + "." + parameter.name, parameter.tensor.shape()));
  }
}

void expect_values(const Tensor& tensor, const std::vector<double>& expected, double tolerance,
                   const std::string& what) {
  const std::vector<double> actual = tensor.to_doubles();
  ASSERT_EQ(actual.size(), expected.size()) << what;
  for (size_t i = 0; i < actual.size(); ++i)
    EXPECT_NEAR(actual[i], expected[i], tolerance) << what << " " << i;
}

/// Six steps; PyTorch's f32 and f64 results are up to 3e-7 apart for weights of about 1.
void check_optimizer(const char* name, const char* run, const OptimizerArguments& arguments) {
  const Golden golden("optimizers");
  std::vector<NamedTensor> parameters = make_parameters();
  const auto optimizer = value_or_throw(find_optimizer(name))->build(parameters, arguments);
  for (int step = 0; step < 6; ++step) {
    set_gradients(parameters, step);
    optimizer->step(0.1 / (1 + step));
  }
  for (const NamedTensor& parameter : parameters) {
    const std::string key = std::string(run) + "." + parameter.name;
    expect_values(parameter.tensor, golden.at(key + ".f64"), 1e-6, key);
  }
}

OptimizerArguments adam_arguments() {
  OptimizerArguments arguments;
  arguments.beta1 = 0.9;
  arguments.beta2 = 0.99;
  arguments.epsilon = 1e-6;
  return arguments;
}

TEST(OptimizerParity, SgdWithoutMomentum) {
  OptimizerArguments arguments;
  arguments.momentum = 0.0;
  check_optimizer("sgd", "sgd.plain", arguments);
}
TEST(OptimizerParity, SgdWithMomentum) {
  check_optimizer("sgd", "sgd.momentum", {});
}
TEST(OptimizerParity, SgdWithNesterov) {
  OptimizerArguments arguments;
  arguments.nesterov = true;
  check_optimizer("sgd", "sgd.nesterov", arguments);
}
TEST(OptimizerParity, SgdWithDecayThroughTheGradient) {
  OptimizerArguments arguments;
  arguments.nesterov = true;
  arguments.weight_decay = 0.05;
  check_optimizer("sgd", "sgd.decay", arguments);
}
TEST(OptimizerParity, SgdWithDecoupledDecay) {
  OptimizerArguments arguments;
  arguments.nesterov = true;
  arguments.weight_decay = 0.05;
  arguments.decoupled = true;
  check_optimizer("sgd", "sgd.decoupled", arguments);
}
TEST(OptimizerParity, Adam) {
  check_optimizer("adam", "adam.plain", adam_arguments());
}
TEST(OptimizerParity, AdamWithDecayThroughTheGradient) {
  OptimizerArguments arguments = adam_arguments();
  arguments.weight_decay = 0.05;
  check_optimizer("adam", "adam.decay", arguments);
}
TEST(OptimizerParity, AdamW) {
  OptimizerArguments arguments = adam_arguments();
  arguments.weight_decay = 0.05;
  check_optimizer("adamw", "adamw.decay", arguments);
}
TEST(OptimizerParity, Adafactor) {
  OptimizerArguments arguments;
  arguments.weight_decay = 0.05;
  check_optimizer("adafactor", "adafactor.decay", arguments);
}

TEST(OptimizerParity, ClippingScalesByTheGlobalNorm) {
  const Golden golden("optimizers");
  for (const auto& [text, max_norm] : {std::pair{"0.5", 0.5}, std::pair{"100", 100.0}}) {
    std::vector<NamedTensor> parameters = make_parameters();
    set_gradients(parameters, 0);
    const std::string key = std::string("clip.") + text;
    EXPECT_NEAR(clip_grad_norm(parameters, max_norm), golden.at(key + ".norm")[0], 1e-6);
    for (const NamedTensor& parameter : parameters)
      expect_values(parameter.tensor.grad(), golden.at(key + "." + parameter.name), 1e-7, key);
  }
}

TEST(OptimizerParity, AveragesOfWeights) {
  const Golden golden("optimizers");
  Linear layer(5, 3, false);
  const auto put = [&](const std::string& name) {
    layer.load_state_dict({{"weight", noise_tensor(name, kShapeA)}});
  };
  put("weight.a");
  Ema ema(layer, 0.9);
  for (int step = 0; step < 6; ++step) {
    put("grad." + std::to_string(step) + ".a");
    ema.update(layer);
  }
  expect_values(ema.state().at(0).tensor, golden.at("ema"), 1e-6, "ema");
}

void check_schedule(const char* run, ScheduleArguments schedule) {
  const Golden golden("schedules");
  schedule.lr = 0.4;
  schedule.total_steps = 24;
  const std::vector<double>& expected = golden.at(run);
  for (size_t step = 0; step < expected.size(); ++step) {
    // PyTorch multiplies from step to step; the formula here is closed. Both are f64.
    EXPECT_NEAR(value_or_throw(learning_rate(schedule, static_cast<int64_t>(step))), expected[step], 1e-12)
        << run << " step " << step;
  }
}

TEST(ScheduleParity, Constant) {
  check_schedule("constant", {.name = "constant"});
}
TEST(ScheduleParity, Step) {
  check_schedule("step", {.name = "step", .milestones = {6, 15}, .gamma = 0.2});
}
TEST(ScheduleParity, Cosine) {
  check_schedule("cosine", {.name = "cosine", .final_ratio = 0.01});
}
TEST(ScheduleParity, WarmUpThenCosine) {
  check_schedule("warmup_cosine", {.name = "cosine", .warmup_steps = 5, .warmup_start = 0.1});
}
TEST(ScheduleParity, OneCycle) {
  check_schedule("one_cycle",
                 {.name = "one_cycle", .warmup_start = 0.1, .final_ratio = 0.01, .peak_at = 0.25});
}

}  // namespace
}  // namespace dlpipe::engine::parity
