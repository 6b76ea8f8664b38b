// Training with everything real: JPEGs, dataset, pipeline, engine.
#include "dlpipe/session.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "dlpipe/predictor.h"
#include "engine/core/kernel_table.h"
#include "run/record/checkpoint.h"
#include "run/record/kernels.h"
#include "run/record/receipt.h"
#include "tests/run/session_fixture.h"

namespace dlpipe::run {

namespace fs = std::filesystem;
using test::ScratchFolder;
using test::SessionTest;
using test::text_of;

TEST_F(SessionTest, TrainsAndLeavesACompleteRunDirectory) {
  ScratchFolder runs;
  Session session(config(runs / "a"));
  const TrainOutcome outcome = session.train();
  EXPECT_EQ(outcome.steps, 40);  // 320 images, 16 per batch, 2 epochs
  EXPECT_TRUE(outcome.last_validation.has_value());
  for (const char* file : {"config.toml", "metrics.jsonl", "ledger.json", "kernels.json", "receipt.json",
                           "checkpoints/last/model.safetensors", "checkpoints/best/state.json"}) {
    EXPECT_TRUE(fs::exists(runs / "a/" + file)) << file;
  }
  // Whether it adds up is trainer_test's, where parts take longer than a scheduler's slice.
  EXPECT_GT(outcome.ledger.covered_ns(), 0);
}

// Gradients that are kept over batches, and the model's own weights while a validation uses the averages.
TEST_F(SessionTest, ARunKeepsToItsMemoryPlanWithAccumulationAndAverages) {
  for (const auto& [accumulate, ema] : {std::pair(int64_t{1}, 0.0), {3, 0.0}, {1, 0.9}, {3, 0.9}}) {
    SCOPED_TRACE(testing::Message() << "--accumulate " << accumulate << " --ema " << ema);
    TrainConfig c = config("");
    c.model = "mlp";  // most of what it takes are weights
    c.accumulate = accumulate;
    c.ema = ema;
    TrainObserver observer;  // with one, memory is planned
    Session session(c, {}, &observer);
    const TrainOutcome outcome = session.train();
    ASSERT_GT(outcome.memory_plan.total(), 0u);
    EXPECT_LE(static_cast<double>(outcome.memory_bytes),
              1.05 * static_cast<double>(outcome.memory_plan.total()));
  }
}

TEST_F(SessionTest, TellsWhatItStartsWith) {
  class Start : public TrainObserver {
   public:
    void on_start(const StartReport& start) override { report = start; }
    StartReport report;
  };
  TrainConfig c = config("");
  c.epochs = 0.5;
  for (const char* val_every : {"1epoch", "never"}) {
    c.val_every = val_every;
    Start start;
    Session session(c, {}, &start);
    session.train();
    EXPECT_EQ(start.report.first_step, 0);
    EXPECT_EQ(start.report.total_steps, 10);
    EXPECT_EQ(start.report.batches_per_epoch, 20);
    EXPECT_EQ(start.report.train_samples, 320);
    EXPECT_EQ(start.report.left_out, 0);
    EXPECT_EQ(start.report.val_samples > 0, c.val_every != "never");
    EXPECT_GT(start.report.parameters, 0);
    EXPECT_EQ(start.report.threads, 2);
    EXPECT_GT(start.report.memory.total(), 0u);
  }
}

TEST_F(SessionTest, TheSameConfigOnOtherThreadsIsTheSameRun) {
  ScratchFolder runs;
  TrainConfig first = config(runs / "a");
  Session(first).train();
  TrainConfig second;
  ASSERT_TRUE(read_config(runs / "a/config.toml", second).ok());
  second.out = runs / "b";
  second.threads = 3;
  second.slots = 5;
  Session(second).train();
  const auto difference = compare_runs(runs / "a", runs / "b");
  ASSERT_TRUE(difference.ok()) << difference.status().message();
  EXPECT_TRUE(difference->same());
  EXPECT_EQ(text_of(runs / "a/receipt.json"), text_of(runs / "b/receipt.json"));
  EXPECT_EQ(text_of(runs / "a/checkpoints/last/model.safetensors"),
            text_of(runs / "b/checkpoints/last/model.safetensors"));
}

// cifarnet's first convolution starts with filters computed from the images, each followed by its negative.
// The first run measures, the second takes its answers: the same kernels, the same bits.
TEST_F(SessionTest, RunsThatMeasureTheirKernelsAgree) {
  ScratchFolder runs;
  ::setenv("XDG_CACHE_HOME", runs.path().c_str(), 1);
  TrainConfig measured = config(runs / "a");
  measured.kernels = "measured";
  measured.epochs = 1;
  const TrainOutcome outcome = Session(measured).train();
  EXPECT_NE(text_of(runs / "a/kernels.json").find("measured"), std::string::npos);
  measured.out = runs / "b";
  measured.threads = 1;
  Session(measured).train();
  EXPECT_EQ(text_of(runs / "a/kernels.json"), text_of(runs / "b/kernels.json"));
  EXPECT_EQ(text_of(runs / "a/checkpoints/last/model.safetensors"),
            text_of(runs / "b/checkpoints/last/model.safetensors"));
  // oneDNN's version stands in the name of what is kept, so that another release measures for itself.
  std::string library = engine::kernel_library();
  std::replace(library.begin(), library.end(), ' ', '-');
  EXPECT_NE(measured_kernels_file().find(library + ".json"), std::string::npos) << measured_kernels_file();
  EXPECT_TRUE(std::filesystem::exists(measured_kernels_file()));
  ::unsetenv("XDG_CACHE_HOME");
  // A checkpoint is judged with the kernels of its run.
  engine::kernel_table().clear();
  const Evaluation evaluation =
      evaluate_dataset({.model = {.weights = runs / "a/checkpoints/last"}, .data = data_.split, .batch = 16});
  EXPECT_EQ(evaluation.report.loss, outcome.last_validation->result.loss);
  EXPECT_NE(engine::kernel_table().save().find("measured"), std::string::npos);
  measured.kernels = "guessed";
  measured.out = runs / "c";
  EXPECT_THROW(Session{measured}, Error);
}

// Each machine would measure for itself, and may choose otherwise.
TEST_F(SessionTest, RanksOnSeveralMachinesChooseKernelsByRules) {
  ScratchFolder runs;
  ::setenv("XDG_CACHE_HOME", runs.path().c_str(), 1);
  const char* const given = std::getenv("DLPIPE_KERNELS");
  const std::string former = given == nullptr ? "" : given;
  ::unsetenv("DLPIPE_KERNELS");
  ::setenv("OMPI_COMM_WORLD_RANK", "0", 1);
  ::setenv("OMPI_COMM_WORLD_SIZE", "2", 1);
  const auto kernels_of = [&](const char* out, const char* on_this_machine, const char* option) {
    ::setenv("OMPI_COMM_WORLD_LOCAL_SIZE", on_this_machine, 1);
    TrainConfig c = config(runs / out);
    c.kernels = option;
    c.max_steps = 1;
    c.threads = 1;
    engine::kernel_table().clear();
    Session(c).train();
    return text_of(runs / (std::string(out) + "/kernels.json"));
  };
  EXPECT_EQ(kernels_of("several", "1", "auto").find("measured"), std::string::npos);
  EXPECT_NE(kernels_of("one", "2", "auto").find("measured"), std::string::npos);
  EXPECT_NE(kernels_of("asked", "1", "measured").find("measured"), std::string::npos);
  for (const char* name : {"RANK", "SIZE", "LOCAL_SIZE"})
    ::unsetenv((std::string("OMPI_COMM_WORLD_") + name).c_str());
  ::unsetenv("XDG_CACHE_HOME");
  if (!former.empty()) ::setenv("DLPIPE_KERNELS", former.c_str(), 1);
}

TEST_F(SessionTest, TwoInAProcessKeepTheirOwnKernels) {
  ScratchFolder runs;
  ::setenv("XDG_CACHE_HOME", runs.path().c_str(), 1);
  TrainConfig measured = config(runs / "a"), ruled = config(runs / "b");
  measured.kernels = "measured";
  ruled.kernels = "rules";
  measured.epochs = ruled.epochs = 1;
  const std::string before = engine::kernel_table().save();
  Session first(measured);
  Session second(ruled);
  first.train();
  second.train();
  ::unsetenv("XDG_CACHE_HOME");
  EXPECT_NE(text_of(runs / "a/kernels.json").find("measured"), std::string::npos);
  EXPECT_EQ(text_of(runs / "b/kernels.json").find("measured"), std::string::npos);
  EXPECT_EQ(engine::kernel_table().save(), before);
}

TEST_F(SessionTest, AModelMayTakeFirstWeightsFromTheImages) {
  ScratchFolder runs;
  const auto stem_after_a_step = [&](const std::string& run, int64_t threads, double lr,
                                     const std::string& init) {
    TrainConfig c = config(runs / run);
    c.model = "cifarnet";
    c.max_steps = 1;
    c.lr = lr;
    c.threads = threads;
    c.init = init;
    Session(c).train();
    for (const engine::NamedTensor& named :
         value_or_throw(load_checkpoint(runs / run + "/checkpoints/last", false)).tensors.model) {
      if (named.name == "stem.conv.weight") return named.tensor.to_doubles();
    }
    return std::vector<double>();
  };
  const std::vector<double> stem = stem_after_a_step("a", 1, 0.0, "");
  ASSERT_EQ(stem.size(), 24u * 12u);
  for (size_t i = 0; i < stem.size(); i += i % 12 == 11 ? 13 : 1) EXPECT_EQ(stem[i], -stem[i + 12]) << i;
  EXPECT_EQ(stem_after_a_step("b", 3, 0.0, ""), stem);

  // Weights from elsewhere stay as they are.
  const std::vector<double> given = stem_after_a_step("c", 2, 0.5, "");
  EXPECT_NE(given, stem);
  EXPECT_EQ(stem_after_a_step("d", 2, 0.0, runs / "c/checkpoints/last"), given);
}

TEST_F(SessionTest, WeightsThatSayTheirModelNeedNoneNamed) {
  ScratchFolder runs;
  TrainConfig first = config(runs / "a");
  first.epochs = 0.5;
  Session(first).train();
  TrainConfig named = config(runs / "named");
  named.init = runs / "a";
  const TrainOutcome expected = Session(named).train();
  TrainConfig unnamed = named;
  unnamed.model = "";
  unnamed.out = runs / "unnamed";
  EXPECT_EQ(Session(unnamed).train().loss, expected.loss);
  EXPECT_TRUE(compare_runs(runs / "named", runs / "unnamed")->same());
  TrainConfig saved;
  ASSERT_TRUE(read_config(runs / "unnamed/config.toml", saved).ok());
  EXPECT_EQ(saved.model, "lenet");

  // A file that another program wrote says nothing, but its tensors fit one.
  fs::create_directory(runs / "elsewhere");
  fs::copy_file(runs / "a/checkpoints/last/model.safetensors", runs / "elsewhere/w.safetensors");
  unnamed.init = runs / "elsewhere/w.safetensors";
  unnamed.out = runs / "elsewhere/run";
  try {
    Session session(unnamed);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("does not record their model; they fit --model lenet"),
              std::string::npos)
        << error.what();
  }
}

TEST_F(SessionTest, AnotherSeedIsAnotherRun) {
  ScratchFolder runs;
  TrainConfig first = config(runs / "a");
  TrainConfig second = config(runs / "b");
  first.epochs = second.epochs = 0.5;
  second.seed = 4;
  Session(first).train();
  Session(second).train();
  const auto difference = compare_runs(runs / "a", runs / "b");
  EXPECT_FALSE(difference->same_batches());
  EXPECT_FALSE(difference->same_weights());
  EXPECT_EQ(difference->first_step, 1);
}

TEST_F(SessionTest, OneBatchCanBeLearntByHeart) {
  TrainConfig c = config("");
  c.overfit_batch = 60;
  c.schedule = "constant";
  const TrainOutcome outcome = Session(c).train();
  EXPECT_EQ(outcome.steps, 60);
  EXPECT_LT(outcome.loss, 0.1 * outcome.first_loss);
}

TEST_F(SessionTest, PixelReceiptsAgreeAcrossThreadsToo) {
  ScratchFolder runs;
  for (const char* name : {"a", "b"}) {
    TrainConfig c = config(runs / name);
    c.receipt = "pixels";
    c.epochs = 0.5;
    c.threads = name[0] == 'a' ? 1 : 3;
    Session(c).train();
  }
  EXPECT_TRUE(compare_runs(runs / "a", runs / "b")->same());
}

TEST(SearchNote, NamesTheFileOnlyWhereItCanBeKept) {
  ScratchFolder folder;
  ASSERT_TRUE(formats::write_file(folder / "file", "x").ok());
  const char* const given = std::getenv("XDG_CACHE_HOME");
  const std::string former = given == nullptr ? "" : given;
  ::setenv("XDG_CACHE_HOME", (folder / "cache").c_str(), 1);
  EXPECT_NE(search_note("--kernels rules").find(folder / "cache"), std::string::npos);
  ::setenv("XDG_CACHE_HOME", (folder / "file").c_str(), 1);  // nothing can be below it
  EXPECT_EQ(search_note("--kernels rules").find(folder / "file"), std::string::npos);
  EXPECT_NE(search_note("--kernels rules").find("--kernels rules"), std::string::npos);
  given == nullptr ? ::unsetenv("XDG_CACHE_HOME") : ::setenv("XDG_CACHE_HOME", former.c_str(), 1);
}

}  // namespace dlpipe::run
