// The stages of a session, each used alone by a program.
#include <gtest/gtest.h>

#include <limits>

#include "engine/core/kernel_table.h"
#include "engine/core/parallel.h"
#include "run/record/checkpoint.h"
#include "run/record/kernels.h"
#include "run/train/session/linked_data.h"
#include "run/train/session/model.h"
#include "run/train/session/plans.h"
#include "tests/run/session_fixture.h"

namespace dlpipe::run {

using test::SessionTest;

TEST_F(SessionTest, OptionsResolveWithoutADataset) {
  TrainConfig c = config("");
  c.data = "/nowhere/train";
  c.label_smoothing = 0.1;
  c.memory = "2GiB";
  c.val_every = "30s";
  const SessionOptions options = resolve_options(c);
  EXPECT_EQ(options.config.momentum, 0.9);  // sgd's own
  EXPECT_EQ(options.step.loss_arguments.label_smoothing, 0.1);
  EXPECT_EQ(options.eval.loss_arguments.label_smoothing, 0);
  EXPECT_STREQ(options.model->name, "lenet");
  EXPECT_EQ(options.memory_limit, uint64_t{2} << 30);
  EXPECT_EQ(options.val_every.amount, 30);
  EXPECT_THROW(open_data(options), Error);
  c.memory = "little";
  EXPECT_THROW(resolve_options(c), Error);
}

// A program sets members, which no flag has checked.
TEST_F(SessionTest, EveryOptionIsCheckedWhoeverSetIt) {
  const auto message = [](const TrainConfig& c) {
    try {
      resolve_options(c);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  TrainConfig c = config("");
  EXPECT_EQ(message(c), "");
  c.batch = 0;
  EXPECT_NE(message(c).find("--batch is '0'; expected at least 1"), std::string::npos) << message(c);
  c = config("");
  c.cache = "coeficients";
  EXPECT_NE(message(c).find("did you mean 'coefficients'?"), std::string::npos) << message(c);
  c = config("");
  c.momentum = std::numeric_limits<double>::quiet_NaN();
  EXPECT_NE(message(c).find("--momentum"), std::string::npos) << message(c);
}

TEST_F(SessionTest, ACacheNeedsARunDirectoryAndASizeNeedsACache) {
  TrainConfig c = config("/nowhere/run");
  c.cache_size = "2GiB";
  EXPECT_THROW(resolve_options(c), Error);
  c.cache = "coefficients";
  EXPECT_EQ(resolve_options(c).cache_bytes, uint64_t{2} << 30);
  c.cache_size = "little";
  EXPECT_THROW(resolve_options(c), Error);
  c.cache_size.clear();
  EXPECT_EQ(resolve_options(c).cache_bytes, 0u);
  c.out.clear();
  EXPECT_THROW(resolve_options(c), Error);
}

TEST_F(SessionTest, TheCachesOfAllProcessesTogetherAreBounded) {
  EXPECT_EQ(cache_share(uint64_t{2} << 30, 1), uint64_t{2} << 30);
  EXPECT_EQ(cache_share(uint64_t{2} << 30, 4), uint64_t{1} << 29);
  EXPECT_EQ(cache_share(3, 4), 1u) << "0 would be no limit";
  EXPECT_EQ(cache_share(0, 4), 0u);
}

TEST_F(SessionTest, DataOpenWithoutAModel) {
  std::vector<std::string> notes;
  const SessionOptions options = resolve_options(config(""));
  const SessionData data =
      open_data(options, nullptr, "", [&](const std::string& text, Tone) { notes.push_back(text); });
  EXPECT_EQ(data.schedule.total_steps, 40);
  EXPECT_EQ(data.model.arguments.width, 32);
  EXPECT_EQ(data.augment, options.config.augment);
  EXPECT_TRUE(notes.empty());
  int64_t samples = 0;
  for (int i = 0; i < 20; ++i) {
    const std::optional<Batch> batch = value_or_throw(data.train->next());
    ASSERT_TRUE(batch.has_value());
    samples += batch->count;
    throw_if_error(data.train->release(*batch));
  }
  EXPECT_EQ(samples, data.train->samples_per_epoch());
  ASSERT_NE(data.val, nullptr);
  EXPECT_EQ(data.val->dataset().id(), data.val_id);
}

TEST_F(SessionTest, AProgramsOwnLoopOverTheStagesIsTheSameRun) {
  TrainConfig c = config("");
  c.epochs = 0.5;
  c.ema = 0.9;
  c.val_every = "never";
  Session session(c);
  const TrainOutcome outcome = session.train();

  const SessionOptions options = link_images(open_device_sums(resolve_options(c)), "");
  engine::set_engine_threads(options.threads);
  engine::kernel_table().clear();
  use_kernels(options.config.kernels);
  const SessionData data = open_data(options);
  const TrainConfig kept = with_data(options, data).config;
  EXPECT_EQ(kept.augment, session.config().augment);
  EXPECT_EQ(kept.record.at("data-id"), data.dataset_id);
  EXPECT_EQ(kept.record.at("val-id"), data.val_id);
  const auto model = build_model(options, data);
  const Optimization optimization = build_optimizer(options, *model);
  EXPECT_GT(plan_memory(options, data, *model).total(), 0u);
  const auto step = TrainStep::create(*model, *optimization.optimizer, optimization.ema.get(), options.step);
  model->train();
  double loss = 0;
  for (int64_t i = 0; i < data.schedule.total_steps; ++i) {
    ASSERT_NE(step->run(*data.train, i, value_or_throw(engine::learning_rate(data.schedule, i))), nullptr);
    loss = step->take_outcome(true)->loss;
  }
  EXPECT_EQ(outcome.steps, data.schedule.total_steps);
  EXPECT_EQ(loss, outcome.loss);
  EXPECT_EQ(data.train->state().chain, outcome.batches_chain);
  EXPECT_EQ(hash_tensors(model->state_dict(), 0), hash_tensors(session.model().state_dict(), 0));
}

}  // namespace dlpipe::run
