// Sgd and adam over flat groups on the simulated grid, against engine/optim: the same bits.
#include <gtest/gtest.h>

#include "tests/engine/cuda/flat_rig.h"

namespace dlpipe::engine::cuda {
namespace {

using namespace test;  // NOLINT: the rig alone

float factor_of(const std::vector<OptimizerArguments::Scale>& scales) {
  return scales.empty() ? 1.0f : static_cast<float>(scales.back().factor);
}
SgdOptions sgd_options(const OptimizerArguments& a) {
  return {.momentum = a.momentum,
          .nesterov = a.nesterov,
          .weight_decay = a.weight_decay,
          .decoupled = a.decoupled,
          .lr_scale = factor_of(a.lr_scales),
          .decay_scale = factor_of(a.decay_scales)};
}
AdamOptions adam_options(const OptimizerArguments& a) {
  return {a.beta1,
          a.beta2,
          a.epsilon,
          a.weight_decay,
          a.decoupled,
          factor_of(a.lr_scales),
          factor_of(a.decay_scales)};
}

/// Five steps of both, each gradient scaled by 1024 and back; the same bits, since nothing is contracted
/// here.
template <class Step>
void expect_the_cpus_bits(const char* optimizer, const OptimizerArguments& arguments, const Step& step) {
  for (const std::vector<int64_t>& sizes : {kSizes, {3}, {4}, {4 * kFlatThreads + 2}}) {
    for (const int64_t shift : {0, 1}) {
      Device device(sizes, shift);
      device.grad_scale = 1.0f / 1024.0f;
      Cpu cpu(optimizer, arguments, device);
      for (int i = 0; i < 5; ++i) {
        device.new_gradients();
        cpu.take_gradients(device);
        for (int64_t k = 0; k < device.count; ++k) device.gradients[k] *= 1024.0f;
        device.lr = rate_of(i);
        cpu.step(device.lr);
        step(device.flat(), device.scalars());
        device.end();
        ASSERT_EQ(device.weights.values(), cpu.weights()) << "step " << i << ", shift " << shift;
      }
      EXPECT_EQ(device.steps, 5);
    }
  }
}

std::vector<OptimizerArguments> kinds_of_decay() {
  std::vector<OptimizerArguments> all(4);
  all[1].weight_decay = 0.05;
  all[2].weight_decay = 0.05;
  all[2].decoupled = true;
  all[3] = all[2];
  all[3].lr_scales = {{"*", 0.3}};
  all[3].decay_scales = {{"*", 0.7}};
  return all;
}

TEST(FlatSteps, SgdGivesTheCpusBits) {
  for (OptimizerArguments arguments : kinds_of_decay()) {
    for (const double momentum : {0.0, 0.9}) {
      for (const bool nesterov : {false, true}) {
        if (nesterov && momentum == 0.0) continue;
        arguments.momentum = momentum;
        arguments.nesterov = nesterov;
        expect_the_cpus_bits("sgd", arguments, [&](const FlatGroup& flat, const StepScalars& scalars) {
          step_sgd(flat, scalars, sgd_options(arguments));
        });
      }
    }
  }
}

TEST(FlatSteps, SgdWithoutMomentumNeedsNoState) {
  Device device({4099});
  device.new_gradients();
  device.lr = 0.5f;
  const std::vector<float> before = device.weights.values();
  FlatGroup flat = device.flat();
  flat.states[0] = flat.states[1] = nullptr;
  step_sgd(flat, {&device.steps, &device.lr}, {.momentum = 0.0});
  for (int64_t i = 0; i < device.count; ++i)
    ASSERT_EQ(device.weights[i], before[static_cast<size_t>(i)] - 0.5f * device.gradients[i]);
}

TEST(FlatSteps, AdamGivesTheCpusBits) {
  for (const OptimizerArguments& arguments : kinds_of_decay()) {
    expect_the_cpus_bits("adam", arguments, [&](const FlatGroup& flat, const StepScalars& scalars) {
      step_adam(flat, scalars, adam_options(arguments));
    });
  }
}
TEST(FlatSteps, AdamWGivesTheCpusBits) {
  OptimizerArguments arguments;
  arguments.beta1 = 0.8;
  arguments.beta2 = 0.95;
  arguments.epsilon = 1e-3;
  arguments.weight_decay = 0.1;
  AdamOptions options = adam_options(arguments);
  options.decoupled = true;
  expect_the_cpus_bits("adamw", arguments, [&](const FlatGroup& flat, const StepScalars& scalars) {
    step_adam(flat, scalars, options);
  });
}

TEST(FlatSteps, AdamReadsTheStepFromTheDevice) {
  Device device({64});
  device.new_gradients();
  device.lr = 0.1f;
  for (int i = 0; i < 3; ++i) {  // nobody counts: each is step 1, whose moments are new
    std::fill_n(device.first.data(), device.count, 0.0f);
    std::fill_n(device.second.data(), device.count, 0.0f);
    const std::vector<float> before = device.weights.values();
    step_adam(device.flat(), device.scalars(), {});
    for (int64_t k = 0; k < device.count; ++k)
      ASSERT_NEAR(std::abs(device.weights[k] - before[static_cast<size_t>(k)]), 0.1f, 1e-6);
  }
}

}  // namespace
}  // namespace dlpipe::engine::cuda
