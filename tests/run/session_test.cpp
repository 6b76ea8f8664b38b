// Training with everything real: JPEGs, dataset, pipeline, engine.
#include "dlpipe/run/session.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "dlpipe/engine/cpu/kernel_table.h"
#include "dlpipe/io/formats/atomic_file.h"
#include "dlpipe/run/ingest/ingest.h"
#include "dlpipe/run/loaded_model.h"
#include "dlpipe/run/predictor.h"
#include "dlpipe/run/stage_report.h"
#include "dlpipe/run/tensor_file.h"
#include "tests/io/formats/scratch.h"
#include "tests/run/sample_data.h"

namespace dlpipe::run {

namespace fs = std::filesystem;
using test::SampleData;
using test::ScratchFolder;

class SessionTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<ScratchFolder>();
    data_ = test::make_sample_data(folder_->path(), 40);
  }
  static void TearDownTestSuite() { folder_.reset(); }

  static TrainConfig config(const std::string& out) {
    TrainConfig config;
    config.data = data_.split;
    config.model = "lenet";
    config.augment = "pad_crop(32,4) hflip";
    config.batch = 16;
    config.epochs = 2;
    config.lr = 0.02;
    config.out = out;
    config.seed = 3;
    config.threads = 2;
    return config;
  }

  static void expect_equal_judgement(const std::string& run);

  static std::unique_ptr<ScratchFolder> folder_;
  static SampleData data_;
};
std::unique_ptr<ScratchFolder> SessionTest::folder_;
SampleData SessionTest::data_;

// Stops after some steps.
class StopAfter : public TrainObserver {
 public:
  explicit StopAfter(int64_t step) : step_(step) {}
  void on_step(int64_t step, double) override { stop = step == step_; }
  std::atomic<bool> stop{false};

 private:
  int64_t step_;
};

static std::string text_of(const std::string& path) {
  return *formats::read_file(path);
}

TEST_F(SessionTest, TrainsAndLeavesACompleteRunDirectory) {
  ScratchFolder runs;
  Session session(config(runs / "a"));
  const TrainOutcome outcome = session.train();
  EXPECT_EQ(outcome.steps, 40);  // 320 images, 16 a batch, 2 epochs
  EXPECT_TRUE(outcome.last_validation.has_value());
  for (const char* file : {"config.toml", "metrics.jsonl", "ledger.json", "kernels.json", "receipt.json",
                           "checkpoints/last/model.safetensors", "checkpoints/best/state.json"}) {
    EXPECT_TRUE(fs::exists(runs / "a/" + file)) << file;
  }
  EXPECT_TRUE(report_ledger(outcome.ledger).adds_up()) << report_ledger(outcome.ledger).unaccounted_share;
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
  ::unsetenv("XDG_CACHE_HOME");
  // A checkpoint is judged with the kernels of its run.
  engine::kernel_table().clear();
  const Evaluation evaluation =
      evaluate_checkpoint({.checkpoint = runs / "a/checkpoints/last", .data = data_.split, .batch = 16});
  EXPECT_EQ(evaluation.report.loss, outcome.last_validation->result.loss);
  EXPECT_NE(engine::kernel_table().save().find("measured"), std::string::npos);
  measured.kernels = "guessed";
  measured.out = runs / "c";
  EXPECT_THROW(Session{measured}, Error);
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

TEST_F(SessionTest, AStoppedRunResumesBitForBitWithOtherThreadCounts) {
  ScratchFolder runs;
  Session(config(runs / "whole")).train();
  {
    StopAfter observer(7);
    Session session(config(runs / "parts"), {}, &observer);
    EXPECT_TRUE(session.train(&observer.stop).stopped);
  }
  {
    StopAfter observer(20);  // an epoch's end: its validation is still to come
    const auto session = Session::resume(runs / "parts", {{"threads", "1"}}, {}, &observer);
    EXPECT_TRUE(session->train(&observer.stop).stopped);
  }
  const auto session = Session::resume(runs / "parts", {{"threads", "3"}, {"slots", "4"}});
  EXPECT_FALSE(session->train().stopped);
  const auto difference = compare_runs(runs / "whole", runs / "parts");
  ASSERT_TRUE(difference.ok());
  EXPECT_TRUE(difference->same()) << difference->first_step << difference->first_line
                                  << difference->second_line;
  EXPECT_EQ(text_of(runs / "whole/checkpoints/last/optimizer.safetensors"),
            text_of(runs / "parts/checkpoints/last/optimizer.safetensors"));
}

TEST_F(SessionTest, MixedBatchesResumeBitForBitToo) {
  const auto mixed = [](const std::string& out) {
    TrainConfig c = config(out);
    c.mixup = 0.3;
    c.cutmix = 1;
    c.label_smoothing = 0.1;
    return c;
  };
  ScratchFolder runs;
  const TrainOutcome plain = Session(config(runs / "plain")).train();
  const TrainOutcome whole = Session(mixed(runs / "whole")).train();
  EXPECT_NE(whole.batches_chain, plain.batches_chain);
  {
    StopAfter observer(7);
    Session session(mixed(runs / "parts"), {}, &observer);
    EXPECT_TRUE(session.train(&observer.stop).stopped);
  }
  EXPECT_FALSE(Session::resume(runs / "parts", {{"threads", "1"}, {"slots", "5"}})->train().stopped);
  const auto difference = compare_runs(runs / "whole", runs / "parts");
  ASSERT_TRUE(difference.ok());
  EXPECT_TRUE(difference->same()) << difference->first_step << difference->first_line;
  EXPECT_EQ(text_of(runs / "whole/checkpoints/last/model.safetensors"),
            text_of(runs / "parts/checkpoints/last/model.safetensors"));
}

TEST_F(SessionTest, ATextResumesBitForBitToo) {
  ScratchFolder folder;
  std::ofstream text(folder / "verse.txt");
  for (int i = 0; i < 100; ++i) text << "one two three; four five six.\n";
  text.close();
  ingest::IngestOptions options;
  options.source = folder / "verse.txt";
  options.destination = folder / "data";
  options.split = {0.9, 0.1};
  options.length = 16;
  value_or_throw(ingest::ingest(options));
  const auto config_of = [&](const std::string& out) {
    TrainConfig c = config(folder / out);
    c.data = folder / "data";
    c.model = "gpt_char_tiny";
    c.augment = "";
    c.optimizer = "adafactor";
    return c;
  };
  Session(config_of("whole")).train();
  {
    StopAfter observer(7);
    Session session(config_of("parts"), {}, &observer);
    EXPECT_TRUE(session.train(&observer.stop).stopped);
  }
  EXPECT_FALSE(Session::resume(folder / "parts", {{"threads", "1"}})->train().stopped);
  const auto difference = compare_runs(folder / "whole", folder / "parts");
  ASSERT_TRUE(difference.ok());
  EXPECT_TRUE(difference->same()) << difference->first_step << difference->first_line;
  TrainConfig pictures = config_of("pictures");
  pictures.model = "lenet";
  EXPECT_THROW(Session{pictures}, Error);
  TrainConfig views = config_of("views");
  views.tta = "flip";
  EXPECT_THROW(Session{views}, Error);
  TrainConfig mixed = config_of("mixed");
  mixed.mixup = 0.2;
  try {
    Session session(mixed);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("--mixup and --cutmix are for pictures"), std::string::npos)
        << error.what();
  }
}

TEST_F(SessionTest, ResumeWithoutACheckpointBeginsAgain) {
  ScratchFolder runs;
  TrainConfig c = config(runs / "a");
  c.epochs = 0.5;
  Session(c).train();
  const std::string receipt = text_of(runs / "a/receipt.json");
  fs::remove_all(runs / "a/checkpoints");
  fs::create_directories(runs / "a/checkpoints");
  Session::resume(runs / "a")->train();
  EXPECT_EQ(text_of(runs / "a/receipt.json"), receipt);
}

TEST_F(SessionTest, ResumeTakesTheLatestWholeCheckpoint) {
  ScratchFolder runs;
  TrainConfig c = config(runs / "a");
  c.checkpoint_every = "5steps";
  c.val_every = "never";
  c.keep = 3;
  Session(c).train();
  const std::string receipt = text_of(runs / "a/receipt.json");
  const std::string last = list_checkpoints(runs / "a/checkpoints").front();
  std::ofstream(last + "/model.safetensors", std::ios::app) << "x";
  Session::resume(runs / "a")->train();
  EXPECT_EQ(text_of(runs / "a/receipt.json"), receipt);
}

TEST_F(SessionTest, WhatWouldChangeTheRunCannotChangeOnResume) {
  ScratchFolder runs;
  TrainConfig c = config(runs / "a");
  c.epochs = 0.5;
  Session(c).train();
  try {
    Session::resume(runs / "a", {{"lr", "1"}});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kMisuse);
    EXPECT_NE(std::string(error.what()).find("--lr can't be changed on --resume"), std::string::npos);
  }
}

TEST_F(SessionTest, EvaluationOfTheCheckpointGivesTheValidationsNumbers) {
  ScratchFolder runs;
  TrainConfig c = config(runs / "a");
  c.val_every = "1epoch";
  const TrainOutcome outcome = Session(c).train();
  const Evaluation evaluation =
      evaluate_checkpoint({.checkpoint = runs / "a/checkpoints/last", .data = data_.split, .batch = 16});
  ASSERT_TRUE(outcome.last_validation.has_value());
  EXPECT_EQ(evaluation.report.loss, outcome.last_validation->result.loss);
  EXPECT_EQ(evaluation.report.value("top1"), outcome.last_validation->result.value("top1"));
  EXPECT_EQ(evaluation.report.samples, 80);
}

// Evaluation and prediction of a run say the same of the same pictures.
void SessionTest::expect_equal_judgement(const std::string& run) {
  // The validation set's own pictures, in its order, through evaluation...
  std::vector<double> wanted;  // probability of the class that evaluation found greatest
  std::vector<int64_t> wanted_class;
  const Evaluation evaluation = evaluate_checkpoint(
      {.checkpoint = run, .data = data_.val, .batch = 16}, {},
      [&](const Batch& batch, std::span<const float> logits, int64_t classes) {
        for (int64_t n = 0; n < batch.count; ++n) {
          const auto row = logits.subspan(static_cast<size_t>(n * classes), static_cast<size_t>(classes));
          const auto top = std::max_element(row.begin(), row.end()) - row.begin();
          wanted_class.push_back(top);
          wanted.push_back(std::exp(-engine::cross_entropy_of(row, top)));
        }
      });
  // ... and as files through prediction. Records hold their file's path.
  const auto dataset = value_or_throw(data::Dataset::open(data_.val));
  const auto reader = value_or_throw(dataset->reader());
  std::vector<std::string> files;
  for (int64_t i = 0; i < dataset->size(); ++i) {
    const auto record = value_or_throw(reader->record(i));
    const auto path = value_or_throw(data::field_bytes(*dataset, record, "path"));
    files.push_back(data_.jpegs + "/" + std::string(reinterpret_cast<const char*>(path.data()), path.size()));
  }
  Predictor predictor({.checkpoint = run, .batch = 16});
  std::vector<Prediction> predictions;
  predictor.predict(files, [&](const Prediction& prediction) { predictions.push_back(prediction); });
  ASSERT_EQ(predictions.size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) {
    ASSERT_EQ(predictions[i].error, "");
    EXPECT_EQ(predictions[i].top[0].first,
              evaluation.model.state.classes[static_cast<size_t>(wanted_class[i])]);
    EXPECT_NEAR(predictions[i].top[0].second, wanted[i], 1e-6);
  }
}

TEST_F(SessionTest, PredictionEqualsEvaluationOnTheSameImages) {
  ScratchFolder runs;
  for (const std::string tta : {"none", "flip", "flip_translate"}) {
    SCOPED_TRACE(tta);
    TrainConfig c = config(runs / tta);
    c.tta = tta;
    Session(c).train();
    expect_equal_judgement(c.out);
  }
}

// Flips one byte of a JPEG of class `name` inside a dataset's file; answers whether it lay in this dataset.
static bool damage_record(const std::string& dataset, const std::string& jpeg) {
  const std::string wanted = text_of(jpeg);
  const std::string file = dataset + "/data.mdb";
  const size_t place = text_of(file).find(wanted);
  if (place == std::string::npos) return false;
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekp(static_cast<std::streamoff>(place + wanted.size() / 2));
  stream.put(static_cast<char>(wanted[wanted.size() / 2] ^ 0x55));
  return true;
}

TEST_F(SessionTest, DamagedRecordsAreSubstitutedAndQuarantinedOnceAlsoOverAResume) {
  ScratchFolder runs;
  const SampleData damaged = test::make_sample_data(runs / "damaged", 40);
  int64_t in_train = 0;
  int64_t in_val = 0;
  for (const char* name :
       {"ring/00001.jpg", "disc/00002.jpg", "star/00003.jpg", "plus/00004.jpg", "bar/00005.jpg"}) {
    in_train += damage_record(damaged.train, damaged.jpegs + "/" + name) ? 1 : 0;
    in_val += damage_record(damaged.val, damaged.jpegs + "/" + name) ? 1 : 0;
  }
  ASSERT_EQ(in_train + in_val, 5);
  ASSERT_GT(in_train, 0);
  TrainConfig c = config(runs / "whole");
  c.data = damaged.split;
  const TrainOutcome outcome = Session(c).train();
  const std::string quarantine = text_of(runs / "whole/quarantine.txt");
  EXPECT_EQ(std::count(quarantine.begin(), quarantine.end(), '\n'), 1 + in_train)
      << quarantine;  // a head and one line each
  EXPECT_EQ(outcome.last_validation->result.dropped, in_val);
  EXPECT_EQ(outcome.last_validation->result.samples, 80 - in_val);

  c.out = runs / "parts";
  for (const int64_t stop : {9, 25}) {
    StopAfter observer(stop);
    const auto session = stop == 9 ? std::make_unique<Session>(c, Registries{}, &observer)
                                   : Session::resume(runs / "parts", {{"threads", "3"}}, {}, &observer);
    ASSERT_TRUE(session->train(&observer.stop).stopped);
  }
  std::ofstream(runs / "parts/quarantine.txt", std::ios::app) << "a line of a killed process\n";
  Session::resume(runs / "parts")->train();
  EXPECT_EQ(text_of(runs / "parts/quarantine.txt"), quarantine);
  EXPECT_TRUE(compare_runs(runs / "whole", runs / "parts")->same());
}

TEST_F(SessionTest, TooManyDamagedRecordsEndTheRun) {
  ScratchFolder runs;
  const SampleData damaged = test::make_sample_data(runs / "damaged", 10);
  for (const char* name : {"ring", "disc", "star", "plus", "bar"}) {
    for (int i = 0; i < 10; ++i) {
      damage_record(damaged.train, damaged.jpegs + "/" + name + "/0000" + std::to_string(i) + ".jpg");
    }
  }
  TrainConfig c = config(runs / "a");
  c.data = damaged.split;
  c.max_bad = 3;
  Session session(c);
  EXPECT_THROW(session.train(), Error);
}

TEST_F(SessionTest, FineTunesFromWeightsWithAFreshHead) {
  ScratchFolder runs;
  TrainConfig c = config(runs / "a");
  c.epochs = 0.5;
  Session(c).train();
  TrainConfig tuned = c;
  tuned.out = runs / "b";
  tuned.init = runs / "a/checkpoints/last/model.safetensors";
  tuned.reset_head = true;
  tuned.freeze = {"conv1.*"};
  Session(tuned).train();
  const auto before = value_or_throw(load_checkpoint(runs / "a/checkpoints/last", false));
  const auto after = value_or_throw(load_checkpoint(runs / "b/checkpoints/last", false));
  for (size_t i = 0; i < before.tensors.model.size(); ++i) {
    const auto& name = before.tensors.model[i].name;
    const bool is_equal =
        hash_tensors({&before.tensors.model[i], 1}, 0) == hash_tensors({&after.tensors.model[i], 1}, 0);
    EXPECT_EQ(is_equal, name.rfind("conv1.", 0) == 0) << name;
  }
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

}  // namespace dlpipe::run
