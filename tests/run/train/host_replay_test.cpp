#include "dlpipe/run/train/step/host_replay.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dlpipe/base/machine.h"
#include "dlpipe/engine/core/allocator.h"
#include "dlpipe/engine/core/parallel.h"
#include "dlpipe/engine/layers/layers.h"
#include "dlpipe/engine/models/model.h"
#include "dlpipe/engine/ops/ops.h"
#include "dlpipe/run/input/cached_batch.h"
#include "dlpipe/run/record/tensor_file.h"
#include "tests/run/small_net.h"

namespace dlpipe::run {
namespace {

using engine::Tensor;

/// A run of some steps, each on another batch.
struct Trial {
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

Answer run_steps(const Trial& run, int64_t steps) {
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
Answer expect_same_bits(const std::function<Trial()>& make, int64_t steps = 6) {
  const Answer eager = run_steps(make(), steps);
  Trial run = make();
  run.options.compile = true;
  Answer compiled = run_steps(run, steps);
  EXPECT_EQ(compiled.losses, eager.losses);
  EXPECT_EQ(compiled.weights, eager.weights);
  return compiled;
}

Answer expect_replayed(const std::function<Trial()>& make, int64_t steps = 6) {
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

Trial small_run(TrainStepOptions options = {}, double dropout = 0) {
  Trial run{test::small_net(8, 4, 1, dropout), options};
  run.batch = [](int64_t step) { return images(16, 8, step, 1); };
  return run;
}

Trial model_run(const std::string& name, TrainStepOptions options = {}) {
  const engine::ModelRecord& record = *value_or_throw(engine::ModelRegistry::builtin().find(name));
  Trial run;
  run.options = options;
  if (record.input == engine::ModelInput::kTokens) {
    run.model = record.build({.classes = 40, .seed = 1, .length = 16});
    run.batch = [](int64_t step) {
      return input_of(*CachedBatch::random_tokens(2, 16, 40, static_cast<uint64_t>(step) + 1));
    };
    return run;
  }
  run.model = record.build({.classes = 4, .channels = 3, .height = 32, .width = 32, .seed = 1});
  run.batch = [](int64_t step) { return images(2, 32, step); };
  return run;
}

TEST(HostReplay, OfASmallNetGivesTheBitsOfTheSteps) {
  const Answer compiled = expect_replayed([] { return small_run(); });
  EXPECT_EQ(compiled.memory.passes, 4);
  EXPECT_GT(compiled.memory.arena_bytes, 0u);
}

class HostReplayOfModel : public testing::TestWithParam<const char*> {};
TEST_P(HostReplayOfModel, GivesTheBitsOfTheSteps) {
  const ReplayMemory memory = expect_replayed([] { return model_run(GetParam()); }, 4).memory;
  // Eager memory is what is needed at once; blocks of fixed places leave gaps.
  EXPECT_LE(memory.arena_bytes, memory.eager_bytes * 105 / 100) << memory.kernels << " kernels";
}
TEST_P(HostReplayOfModel, GivesTheBitsOfStepsInBf16) {
  expect_replayed([] { return model_run(GetParam(), {.dtype = DType::kBF16}); }, 4);
}
INSTANTIATE_TEST_SUITE_P(Models, HostReplayOfModel,
                         testing::Values("mlp", "lenet", "cifarnet", "airbench", "resnet18_cifar",
                                         "vit_small_cifar", "gpt_char_tiny"),
                         [](const auto& info) { return std::string(info.param); });

TEST(HostReplay, DrawsDropoutAnewInEveryStep) {
  const Answer compiled = expect_replayed([] { return small_run({.seed = 3}, 0.5); });
  EXPECT_NE(compiled.weights, expect_replayed([] { return small_run({.seed = 4}, 0.5); }).weights);
}

class HostReplayOfOptions : public testing::TestWithParam<std::pair<const char*, TrainStepOptions>> {};
TEST_P(HostReplayOfOptions, GivesTheBitsOfTheSteps) {
  const auto make = [](double ema, const char* optimizer) {
    return [=] {
      Trial run = small_run(GetParam().second, 0.3);
      run.ema = ema;
      run.optimizer = optimizer;
      return run;
    };
  };
  expect_replayed(make(0, "sgd"));
  expect_replayed(make(0.9, "adamw"));
}
INSTANTIATE_TEST_SUITE_P(
    Options, HostReplayOfOptions,
    testing::Values(std::pair("accumulate", TrainStepOptions{.accumulate = 3}),
                    std::pair("grains2", TrainStepOptions{.grains = 2}),
                    std::pair("grains8", TrainStepOptions{.grains = 8}),
                    std::pair("accumulated_grains", TrainStepOptions{.accumulate = 2, .grains = 4}),
                    std::pair("bf16_wire", TrainStepOptions{.grains = 4, .wire = engine::Wire::kBf16}),
                    std::pair("clip", TrainStepOptions{.clip = 0.1}),
                    std::pair("smoothing", TrainStepOptions{.loss_arguments = {0.1}}),
                    std::pair("skip_nonfinite", TrainStepOptions{.skip_nonfinite = true})),
    [](const auto& info) { return std::string(info.param.first); });

TEST(HostReplay, KeepsTheLastFormsOfItsInputs) {
  // Mixed batches have twice as many labels; images of another size come in the middle.
  const Answer compiled = expect_replayed(
      [] {
        Trial run = model_run("lenet");
        run.batch = [](int64_t step) {
          BatchInput input = images(step % 5 == 4 ? 2 : 4, 32, step);
          if (step % 2 == 0 || step % 5 == 4) return input;
          input.labels = engine::concat({input.labels, input.labels}, 0);
          input.weight =
              engine::concat({engine::scale(input.weight, 0.25), engine::scale(input.weight, 0.75)}, 0);
          input.is_mixed = true;
          return input;
        };
        return run;
      },
      16);
  EXPECT_EQ(compiled.memory.passes, 16 - 3 * 2);
}

TEST(HostReplay, GivesItsArenaBackBetweenSteps) {
  const auto weights_of = [](bool releases) {
    Trial run = model_run("lenet", {.loss = *find_loss("cross_entropy"), .compile = true});
    const auto optimizer = (*engine::find_optimizer("sgd"))->build(run.model->parameters(), {});
    const auto step = TrainStep::create(*run.model, *optimizer, nullptr, run.options);
    run.model->train();
    for (int64_t i = 0; i < 6; ++i) {
      EXPECT_NE(step->run(run.batch(i), i, 0.05), nullptr);
      step->take_outcome(true);
      if (!releases) continue;
      const size_t before = engine::allocator_statistics().used_bytes;
      step->release_memory();
      const size_t arena = step->replay_memory().arena_bytes;
      EXPECT_EQ(arena > 0, i >= 2);
      EXPECT_GE(before - engine::allocator_statistics().used_bytes, arena);
    }
    return hash_tensors(run.model->state_dict(), 0);
  };
  EXPECT_EQ(weights_of(true), weights_of(false));
}

TEST(HostReplay, RunsWhatHasTooManyFormsAsItIs) {
  expect_same_bits(
      [] {
        Trial run = model_run("lenet");
        run.batch = [](int64_t step) { return images(2 + step % 6, 32, step); };
        return run;
      },
      14);
}

TEST(HostReplay, BeginsAnewWhereTheModelChanges) {
  const Answer compiled = expect_replayed(
      [] {
        Trial run = small_run();
        run.before_step = [](int64_t step, engine::Module& model) {
          if (step == 3) model.freeze("fc1.*");
          if (step == 6) model.modules()[1].module->eval();
          if (step == 9) {
            for (engine::NamedTensor& parameter : model.parameters())
              parameter.tensor.set_data(parameter.tensor.clone());
          }
        };
        return run;
      },
      12);
  EXPECT_EQ(compiled.memory.passes, 4);  // the last of each three
}

TEST(HostReplay, LeavesABatchOfDroppedRowsOut) {
  expect_replayed(
      [] {
        Trial run = small_run();
        run.batch = [](int64_t step) {
          BatchInput input = images(16, 8, step, 1);
          input.total_weight = step == 3 ? 0 : 16 - static_cast<double>(step);
          for (int64_t row = 0; row < 16; ++row)
            input.weight.data<float>()[row] = step == 3 || row < step ? 0.0f : 1.0f;
          return input;
        };
        return run;
      },
      7);
}

TEST(HostReplay, OfAStepThatIsNotFiniteIsSkippedAsThatStepIs) {
  const auto make = [] {
    Trial run = small_run({.skip_nonfinite = true});
    run.batch = [](int64_t step) {
      BatchInput input = images(16, 8, step, 1);
      if (step == 4) input.pixels = engine::scale(input.pixels, 1e38);
      return input;
    };
    return run;
  };
  const Answer compiled = run_steps(
      [&] {
        Trial run = make();
        run.options.compile = true;
        return run;
      }(),
      8);
  const Answer eager = run_steps(make(), 8);
  EXPECT_FALSE(std::isfinite(eager.losses[4]));
  EXPECT_EQ(compiled.weights, eager.weights);
  EXPECT_EQ(compiled.losses.back(), eager.losses.back());
  EXPECT_GT(compiled.memory.passes, 0);
}

TEST(HostReplay, GivesTheSameBitsOnOneThreadAndTwo) {
  std::vector<uint64_t> weights;
  for (const int threads : {1, 2, 3}) {
    engine::set_engine_threads(threads);
    weights.push_back(expect_replayed([] { return model_run("lenet"); }).weights);
  }
  engine::set_engine_threads(available_threads());
  EXPECT_EQ(weights[0], weights[1]);
  EXPECT_EQ(weights[0], weights[2]);
}

void expect_refused(const std::function<Trial()>& make, const std::string& words) {
  const Answer compiled = expect_same_bits(make);
  EXPECT_NE(compiled.reason.find(words), std::string::npos) << compiled.reason;
  EXPECT_EQ(compiled.memory.passes, 0);
}

TEST(HostReplay, NamesALossThatLooksAtValues) {
  expect_refused([] { return small_run({.loss = *find_loss("mse")}); },
                 "the host looks at values of the batch in the middle of the pass");
}

TEST(HostReplay, NamesModulesThatRunAgain) {
  expect_refused(
      [] {
        Trial run = small_run();
        EXPECT_EQ(run.model->checkpoint_activations("fc1"), 1);
        return run;
      },
      "Linear (recomputed) has code of its own between its kernels");
}

TEST(HostReplay, NamesAHookOfAModule) {
  expect_refused(
      [] {
        Trial run = small_run();
        run.model->modules()[3].module->register_forward_hook(
            [](engine::Module&, const Tensor&, const Tensor&) {});
        return run;
      },
      "a hook watches each forward call of fc1");
}

TEST(HostReplay, NamesSharedStatistics) {
  expect_refused([] { return small_run({.grains = 2, .sync_bn = true}); }, "--sync-bn");
}

/// A net whose host code does what `work` says to what its only layer made.
class Working final : public engine::Module {
 public:
  using Work = std::function<Tensor(const Tensor& y, int64_t call)>;
  explicit Working(Work work) : work_(std::move(work)) {
    inner_ = add_module("inner", test::small_net(8, 4, 1));
  }
  Tensor forward(const Tensor& x) override { return work_((*inner_)(x), calls_++); }
  std::string kind() const override { return "Working"; }

 private:
  Work work_;
  std::shared_ptr<engine::Module> inner_;
  int64_t calls_ = 0;
};

std::function<Trial()> working_run(const Working::Work& work) {
  return [work] {
    Trial run = small_run();
    run.model = std::make_shared<Working>(work);
    return run;
  };
}

TEST(HostReplay, NamesWhatChangesFromPassToPass) {
  expect_refused(
      working_run([](const Tensor& y, int64_t call) { return engine::scale(y, 1.0 + 0.1 * call); }),
      "the attributes of scale change from pass to pass");
  expect_refused(
      working_run([](const Tensor& y, int64_t call) { return call % 2 == 0 ? engine::relu(y) : y; }),
      "one pass runs relu where the next runs cross_entropy");
  expect_refused(working_run([](const Tensor& y, int64_t call) {
                   return engine::mul(y, Tensor::full(y.shape(), 1.0 + 0.1 * static_cast<double>(call)));
                 }),
                 "the host computes values that change from pass to pass");
  expect_refused(
      working_run([](const Tensor& y, int64_t) { return engine::scale(y, y.to_doubles()[0] > 0 ? 1 : 2); }),
      "the host looks at values of what linear made in the middle of the pass");
}

TEST(HostReplay, TakesConstantsOfTheHost) {
  expect_replayed(
      working_run([](const Tensor& y, int64_t) { return engine::mul(y, Tensor::full(y.shape(), 2.0)); }));
}

TEST(HostReplay, LeavesGradientsThatAHookKeepsAlone) {
  std::vector<Tensor> kept;
  std::vector<std::vector<double>> then;
  Trial run = small_run({.compile = true});
  run.model->parameters()[0].tensor.register_hook([&](const Tensor& grad) {
    kept.push_back(grad);
    then.push_back(grad.to_doubles());
    return Tensor();
  });
  EXPECT_GT(run_steps(run, 6).memory.passes, 0);
  ASSERT_EQ(kept.size(), 6U);
  for (size_t i = 0; i < kept.size(); ++i) EXPECT_EQ(kept[i].to_doubles(), then[i]) << "step " << i;
}

}  // namespace
}  // namespace dlpipe::run
