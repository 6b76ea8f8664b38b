#include "run/train/session/plans.h"

#include <gtest/gtest.h>

#include "engine/core/allocator.h"
#include "engine/core/kernel_table.h"
#include "engine/core/measured_kernels.h"
#include "io/formats/atomic_file.h"
#include "run/input/batch_input.h"
#include "run/train/gradients/gradient_sum.h"
#include "tests/io/formats/scratch.h"

namespace dlpipe::run {
namespace {

MemoryPlanArguments arguments_for(const std::string& model, int64_t batch, int64_t size) {
  MemoryPlanArguments arguments;
  arguments.model = value_or_throw(engine::ModelRegistry::builtin().find(model));
  arguments.model_arguments = {10, 3, size, size, 1};
  if (arguments.model->input == engine::ModelInput::kTokens) arguments.model_arguments.length = size;
  arguments.optimizer = value_or_throw(engine::find_optimizer("adamw"));
  arguments.step.loss = value_or_throw(find_loss("cross_entropy"));
  arguments.batch = batch;
  return arguments;
}

/// What steps of the whole batch hold at most: three of them, and more while it is less than `foretold` by over a tenth. A thread that a
/// busy machine has kept away so far has no scratch yet.
uint64_t measured(const MemoryPlanArguments& arguments, uint64_t foretold) {
  const engine::ModelArguments& m = arguments.model_arguments;
  const size_t before = engine::allocator_statistics().used_bytes;
  const auto model = arguments.model->build(m);
  const auto optimizer = arguments.optimizer->build(model->parameters(), arguments.optimizer_arguments);
  const auto source =
      m.length > 0 ? CachedBatch::random_tokens(arguments.batch, m.length, m.classes, 2)
                   : CachedBatch::random(arguments.batch, {m.height, m.width, m.channels}, m.classes, 2);
  const auto step = TrainStep::create(*model, *optimizer, nullptr, arguments.step);
  start_memory_measurement();
  constexpr int64_t kFewest = 3, kMost = 100;
  const auto is_short = [&] {
    return static_cast<double>(foretold) > 1.1 * static_cast<double>(measured_engine_bytes() - before);
  };
  for (int64_t i = 0; i < kFewest || (i < kMost && is_short()); ++i) step->run(*source, i, 1e-3);
  return measured_engine_bytes() - before;
}

TEST(MemoryPlan, ForetellsAStepsPeakToATenth) {
  for (const auto& [model, batch, size] :
       {std::tuple("lenet", 256, 28), std::tuple("airbench", 64, 32), std::tuple("cifarnet", 64, 32),
        std::tuple("mlp", 128, 28), std::tuple("gpt_char", 8, 48), std::tuple("gpt_char_tiny", 8, 64),
        std::tuple("gpt_char_tiny", 3, 64)}) {
    SCOPED_TRACE(model);
    const MemoryPlanArguments arguments = arguments_for(model, batch, size);
    const MemoryPlan plan = plan_memory(arguments);
    EXPECT_EQ(plan.batch, batch);
    EXPECT_GT(plan.activations, 0u);
    EXPECT_EQ(plan.optimizer, 2 * plan.gradients + sizeof(int64_t)) << "two moments, and the number of steps";
    const auto peak = static_cast<double>(measured(arguments, plan.total()));
    EXPECT_NEAR(static_cast<double>(plan.total()), peak, 0.1 * peak);
  }
}

// Which of them are taken differs from machine to machine, and what they take by a quarter.
TEST(MemoryPlan, ForetellsAStepWithMeasuredKernels) {
  const test::ScratchFolder folder;
  const std::string file = folder / "kernels.json";
  engine::KernelTable table;
  const engine::UseKernelTable use(&table);
  table.measure_with(std::make_shared<engine::cpu::MeasuredKernels>(file));
  const MemoryPlanArguments arguments = arguments_for("cifarnet", 32, 32);
  const MemoryPlan plan = plan_memory(arguments);
  EXPECT_EQ(table.size(), 0u);
  const std::string found = value_or_throw(formats::read_file(file));
  EXPECT_NE(found.find(" n32 "), std::string::npos);
  EXPECT_EQ(found.find(" n16 "), std::string::npos) << "a batch that no run has";

  const auto peak = static_cast<double>(measured(arguments, plan.total()));
  EXPECT_NEAR(static_cast<double>(plan.total()), peak, 0.1 * peak);
  EXPECT_EQ(value_or_throw(formats::read_file(file)), found) << "the steps had to find more";
}

// As with --val-augment "resize(256) center_crop(224)" beside small crops, or --tta ten_crop.
TEST(MemoryPlan, CountsAValidationOfLargerImages) {
  MemoryPlanArguments arguments = arguments_for("resnet18_cifar", 8, 32);
  const MemoryPlan without = plan_memory(arguments);
  arguments.val_shape = {96, 96, 3};
  const MemoryPlan plan = plan_memory(arguments);
  EXPECT_GT(plan.activations, without.activations);

  const size_t before = engine::allocator_statistics().used_bytes;
  const auto model = arguments.model->build(arguments.model_arguments);
  const auto optimizer = arguments.optimizer->build(model->parameters(), arguments.optimizer_arguments);
  const auto step = TrainStep::create(*model, *optimizer, nullptr, arguments.step);
  step->run(*CachedBatch::random(arguments.batch, {32, 32, 3}, 10, 2), 0, 1e-3);
  start_memory_measurement();
  {
    const engine::NoGrad no_grad;
    model->eval();
    const auto source = CachedBatch::random(arguments.batch, arguments.val_shape, 10, 3);
    view_logits(*model, batch_input(*value_or_throw(source->next()), cpu_device()).pixels, Views::kOne);
  }
  // of tensors; how many of the threads come to need scratch for so few images is open
  const auto peak = static_cast<double>(engine::allocator_statistics().peak_used_bytes - before);
  EXPECT_NEAR(static_cast<double>(plan.total() - plan.workspace), peak, 0.1 * peak);
}

// A grain's gradients go into the sums as backward goes on, and are never there together.
TEST(MemoryPlan, ForetellsThePeakOfAStepInGrains) {
  for (const auto& [model, batch, size] : {std::tuple("airbench", 64, 32), std::tuple("cifarnet", 64, 32),
                                           std::tuple("mlp", 128, 28), std::tuple("gpt_char", 8, 48)}) {
    SCOPED_TRACE(model);
    MemoryPlanArguments arguments = arguments_for(model, batch, size);
    arguments.step.grains = 4;
    const size_t before = engine::allocator_statistics().used_bytes;
    measured(arguments, 0);
    const auto peak = static_cast<double>(engine::allocator_statistics().peak_used_bytes - before);
    arguments.step.grains = 1;
    arguments.step.keep_packed = true;
    arguments.batch /= 4;
    arguments.gradients_go = true;
    MemoryPlan plan = plan_memory(arguments);
    const auto model_of_it = arguments.model->build(arguments.model_arguments);
    plan.gradients = GradientSum::bytes({.grains = 4}, model_of_it->parameters());
    // of tensors: scratch is the threads', and what they came to need in other tests they keep
    EXPECT_NEAR(static_cast<double>(plan.total() - plan.workspace), peak, 0.1 * peak);
  }
}

TEST(MemoryPlan, LeavesNoTrace) {
  engine::kernel_table().clear();
  const size_t before = engine::allocator_statistics().used_bytes;
  plan_memory(arguments_for("lenet", 32, 28));
  EXPECT_EQ(engine::allocator_statistics().used_bytes, before);
  EXPECT_EQ(engine::kernel_table().size(), 0u);
}

TEST(MemoryPlan, TheLargestBatchFillsTheLimit) {
  MemoryPlan plan;
  plan.batch = 100;
  plan.parameters = 1000;
  plan.activations = 5000;
  plan.bytes_a_sample = 50;
  EXPECT_EQ(plan.largest_batch(6000), 100);
  EXPECT_EQ(plan.largest_batch(5999), 99);
  EXPECT_EQ(plan.largest_batch(11000), 200);
  EXPECT_EQ(plan.largest_batch(1049), 0);
  EXPECT_EQ(plan.largest_batch(10), 0);
}

}  // namespace
}  // namespace dlpipe::run
