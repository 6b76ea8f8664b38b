#include "dlpipe/run/train/host_replay.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "dlpipe/engine/autograd/function.h"
#include "dlpipe/engine/core/parallel.h"
#include "dlpipe/engine/layers/layers.h"
#include "dlpipe/engine/models/model.h"
#include "dlpipe/engine/ops/ops.h"
#include "dlpipe/run/input/cached_batch.h"
#include "dlpipe/run/record/tensor_file.h"
#include "tests/run/fake_source.h"
#include "tests/run/small_net.h"

namespace dlpipe::run {
namespace {

using engine::Tensor;

/// A run of some steps, each on another batch.
struct Run {
  std::shared_ptr<engine::Module> model;
  TrainStepOptions options = {};
  std::string optimizer = "sgd";
  double ema = 0;
  std::function<BatchInput(int64_t step)> batch = {};
  std::function<void(int64_t step, engine::Module& model)> before_step = {};
};

struct Answer {
  std::vector<double> losses;
  uint64_t weights = 0;  // of the model, and of its average
  std::string reason;
  ReplayMemory memory;
};

Answer run_steps(const Run& run, int64_t steps) {
  TrainStepOptions options = run.options;
  if (options.loss == nullptr) options.loss = *find_loss("cross_entropy");
  const auto optimizer = (*engine::find_optimizer(run.optimizer))->build(run.model->parameters(), {});
  std::unique_ptr<engine::Ema> ema;
  if (run.ema > 0) ema = std::make_unique<engine::Ema>(*run.model, run.ema);
  const auto step = TrainStep::create(*run.model, *optimizer, ema.get(), options);
  run.model->train();
  Answer answer;
  for (int64_t i = 0; i < steps; ++i) {
    if (run.before_step) run.before_step(i, *run.model);
    EXPECT_NE(step->run(run.batch(i), i, 0.05), nullptr);
    answer.losses.push_back(step->take_outcome(true)->loss);
  }
  answer.weights = hash_tensors(run.model->state_dict(), 0);
  if (ema != nullptr) answer.weights = hash_tensors(ema->state(), answer.weights);
  answer.reason = step->replay_reason();
  answer.memory = step->replay_memory();
  return answer;
}

/// What `make` makes, trained as it is and with replays: the same losses and weights, bit for bit.
Answer expect_same_bits(const std::function<Run()>& make, int64_t steps = 6) {
  const Answer eager = run_steps(make(), steps);
  Run run = make();
  run.options.compile = true;
  Answer compiled = run_steps(run, steps);
  EXPECT_EQ(compiled.losses, eager.losses);
  EXPECT_EQ(compiled.weights, eager.weights);
  return compiled;
}

Answer expect_replayed(const std::function<Run()>& make, int64_t steps = 6) {
  const Answer compiled = expect_same_bits(make, steps);
  EXPECT_EQ(compiled.reason, "");
  EXPECT_GT(compiled.memory.passes, 0);
  return compiled;
}

BatchInput input_of(CachedBatch& batch) {
  return batch_input(*value_or_throw(batch.next()));
}

/// Of images of `side` pixels, three channels, four classes.
BatchInput images(int64_t count, int64_t side, int64_t step, int64_t channels = 3) {
  return input_of(*CachedBatch::random(count, {side, side, channels}, 4, static_cast<uint64_t>(step) + 1));
}

Run small_run(TrainStepOptions options = {}, double dropout = 0) {
  Run run{test::small_net(8, 4, 1, dropout), options};
  run.batch = [](int64_t step) { return images(16, 8, step, 1); };
  return run;
}

Run model_run(const std::string& name, TrainStepOptions options = {}) {
  const engine::ModelRecord& record = *value_or_throw(engine::ModelRegistry::builtin().find(name));
  Run run;
  run.options = options;
  if (record.input == engine::ModelInput::kTokens) {
    run.model = record.build({.classes = 40, .seed = 1, .length = 16});
    run.batch = [](int64_t step) {
      return input_of(*CachedBatch::random_tokens(4, 16, 40, static_cast<uint64_t>(step) + 1));
    };
    return run;
  }
  run.model = record.build({.classes = 4, .channels = 3, .height = 32, .width = 32, .seed = 1});
  run.batch = [](int64_t step) { return images(4, 32, step); };
  return run;
}

TEST(HostReplay, OfASmallNetGivesTheBitsOfTheSteps) {
  const Answer compiled = expect_replayed([] { return small_run(); });
  EXPECT_EQ(compiled.memory.passes, 4);
  EXPECT_GT(compiled.memory.arena_bytes, 0u);
}

class HostReplayOfModel : public testing::TestWithParam<const char*> {};
TEST_P(HostReplayOfModel, GivesTheBitsOfTheSteps) {
  const Answer compiled = expect_replayed([] { return model_run(GetParam()); }, 4);
  EXPECT_LE(compiled.memory.arena_bytes, compiled.memory.eager_bytes) << compiled.memory.kernels << " kernels";
}
TEST_P(HostReplayOfModel, GivesTheBitsOfStepsInBf16) {
  expect_replayed([] { return model_run(GetParam(), {.dtype = DType::kBF16}); }, 4);
}
INSTANTIATE_TEST_SUITE_P(Models, HostReplayOfModel,
                         testing::Values("mlp", "lenet", "cifarnet", "airbench", "resnet18_cifar", "vit_small_cifar",
                                         "gpt_char_tiny", "vgg16"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace dlpipe::run
