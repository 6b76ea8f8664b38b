// Whole runs on a device, the simulated one with CUDA's kernels as plain C++: the real pipeline stages
// batches there, and the run is the host's but for the last bits of sums.
#include <gtest/gtest.h>

#include <filesystem>
#include <iostream>
#include <map>

#include "dlpipe/graph.h"
#include "dlpipe/predictor.h"
#include "dlpipe/session.h"
#include "engine/core/allocator.h"
#include "io/formats/atomic_file.h"
#include "run/bench/bench.h"
#include "run/record/receipt.h"
#include "run/record/report.h"
#include "run/use/graph_model.h"
#include "run/use/predict.h"
#include "tests/run/device_fixture.h"
#include "tests/run/device_ranks.h"

namespace dlpipe::run {
namespace {

namespace fs = std::filesystem;
using test::ScratchFolder;

using test::simulated;

class DeviceSession : public test::DeviceFixture {
 protected:
  static std::string text_of(const std::string& path) { return *formats::read_file(path); }

  /// Of some of the images, on the device.
  static void expect_predictions(const ModelOptions& model) {
    Predictor predictor({.model = model, .batch = 4, .device = "simulated"}, registries());
    const std::vector<std::string> folders = {data_.jpegs};
    const std::vector<ImageFile> files = value_or_throw(list_images(folders)).files;
    int64_t predictions = 0;
    predictor.predict(std::span(files).first(6), [&](const Prediction& one) {
      EXPECT_EQ(one.error, "");
      ++predictions;
      return true;
    });
    EXPECT_EQ(predictions, 6);
  }
};

class StopAfter : public TrainObserver {
 public:
  explicit StopAfter(int64_t step) : step_(step) {}
  void on_step(int64_t step, double) override { stop = stop || step == step_; }
  std::atomic<bool> stop{false};

 private:
  int64_t step_;
};

TEST_F(DeviceSession, IsTheHostsRun) {
  ScratchFolder runs;
  const TrainOutcome here = Session(config(runs / "a", "cpu")).train();
  const TrainOutcome there = Session(config(runs / "b", "simulated"), registries()).train();
  EXPECT_EQ(there.steps, here.steps);
  EXPECT_EQ(there.batches_chain, here.batches_chain);
  EXPECT_EQ(there.samples, here.samples);
  EXPECT_NEAR(there.first_loss, here.first_loss, 1e-4);
  EXPECT_NEAR(there.loss, here.loss, 2e-2 * here.loss);
  EXPECT_NEAR(there.last_validation->result.loss, here.last_validation->result.loss,
              2e-2 * here.last_validation->result.loss);
  const auto lines = [&](const std::string& run) {
    const std::string text = text_of(runs / run + "/metrics.jsonl");
    return std::count(text.begin(), text.end(), '\n');
  };
  EXPECT_EQ(lines("b"), lines("a"));
  EXPECT_NE(text_of(runs / "b/receipt.json").find("simulated"), std::string::npos);
  // Where the device's time went adds up, and is told.
  EXPECT_EQ(here.device.steps, 0);
  EXPECT_GT(there.device.steps, 0);
  EXPECT_TRUE(report_ledger(there.device.entry).adds_up());
  EXPECT_TRUE((*formats::read_json(runs / "b/ledger.json"))["device"]["adds_up"].as_bool());
  EXPECT_EQ(there.data_wait_share(), there.device.wait_share());
  // Its checkpoint is anybody's.
  const Evaluation evaluation =
      evaluate_dataset({.model = {.weights = runs / "b/checkpoints/last"}, .data = data_.split, .batch = 16});
  EXPECT_NEAR(evaluation.report.loss, there.last_validation->result.loss, 1e-4);
  const Evaluation on_device = evaluate_dataset({.model = {.weights = runs / "b/checkpoints/last"},
                                                 .data = data_.split,
                                                 .batch = 16,
                                                 .device = "simulated"},
                                                registries());
  EXPECT_EQ(on_device.report.loss, there.last_validation->result.loss);
  expect_predictions({.weights = runs / "b/checkpoints/last"});
}

/// All that a compiled model has are constants: no parameter says where it is.
TEST_F(DeviceSession, ACompiledModelIsJudgedOnADevice) {
  ScratchFolder runs;
  TrainConfig c = config(runs / "a", "cpu");
  c.epochs = 1;
  const TrainOutcome trained = Session(c).train();
  const CompiledModel compiled = compile_model({.weights = runs / "a"}, PassChoice::kAll);
  throw_if_error(engine::graph::write_graph(runs / "m.dlg", compiled.graph));
  const EvaluateOptions options = {
      .model = {.weights = runs / "m.dlg"}, .data = data_.split, .batch = 16, .device = "simulated"};
  EXPECT_NEAR(evaluate_dataset(options, registries()).report.loss, trained.last_validation->result.loss,
              1e-3);
  expect_predictions(options.model);
}

TEST_F(DeviceSession, SeveralProcessesWithADeviceEachComputeTheRunOfOne) {
  ScratchFolder runs;
  TrainConfig alone = config(runs / "1", "simulated");
  alone.grains = 4;
  alone.kernels = "rules";
  alone.epochs = 1;
  alone.max_steps = 6;
  alone.clip = 0.5;
  alone.ema = 0.9;
  for (const int world : {1, 2, 4}) {
    test::on_ranks_with_devices(world, [&](engine::Collective* ranks, SimulatedDevice& device) {
      Registries own;
      own.devices = {&device};
      TrainConfig one = alone;
      one.out = runs / std::to_string(world);
      const TrainOutcome outcome = Session(one, own, nullptr, ranks).train();
      EXPECT_GT(outcome.steps, 0);
      EXPECT_GT(outcome.device.steps, 0);
    });
  }
  for (const char* world : {"2", "4"}) {
    const auto difference = value_or_throw(compare_runs(runs / "1", runs / world));
    EXPECT_TRUE(difference.same()) << world;
    for (const char* file : {"/metrics.jsonl", "/checkpoints/last/model.safetensors",
                             "/checkpoints/last/optimizer.safetensors", "/checkpoints/last/ema.safetensors"})
      EXPECT_EQ(text_of(runs / "1" + file), text_of(runs / world + file)) << world << file;
  }
}

/// As the command line runs them: an observer has the memory foretold.
TEST_F(DeviceSession, AnObservedRunInGrainsIsTheOneThatNobodyWatches) {
  ScratchFolder runs;
  TrainConfig c = config(runs / "alone", "simulated");
  c.grains = 2;
  c.epochs = 1;
  c.max_steps = 2;
  Session(c, registries()).train();
  c.out = runs / "observed";
  StopAfter observer(100);
  EXPECT_EQ(Session(c, registries(), &observer).train().steps, 2);
  EXPECT_TRUE(value_or_throw(compare_runs(runs / "alone", runs / "observed")).same());
}

TEST_F(DeviceSession, WhatADeviceDoesNotDoInSeveralProcessesIsRefused) {
  TrainConfig c = config("", "simulated");
  c.grains = 4;
  c.sync_bn = true;
  try {
    Session session(c, registries());
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("--sync-bn needs --device cpu"), std::string::npos)
        << error.what();
  }
}

TEST_F(DeviceSession, ResumedIsTheSameRunBitForBit) {
  ScratchFolder runs;
  TrainConfig whole = config(runs / "a", "simulated");
  whole.optimizer = "adamw";
  whole.lr = 0.002;
  whole.ema = 0.9;
  whole.dtype = "bf16";
  whole.tf32 = true;  // of what isn't bf16; the simulated device has none
  Session(whole, registries()).train();
  TrainConfig cut = whole;
  cut.out = runs / "b";
  StopAfter stop(7);
  EXPECT_TRUE(Session(cut, registries(), &stop).train(&stop.stop).stopped);
  EXPECT_FALSE(Session::resume(runs / "b", {}, registries())->train().stopped);
  for (const char* file : {"receipt.json", "checkpoints/last/model.safetensors",
                           "checkpoints/last/optimizer.safetensors", "checkpoints/last/ema.safetensors"})
    EXPECT_EQ(text_of(runs / "a/" + file), text_of(runs / "b/" + file)) << file;
  EXPECT_TRUE((*formats::Json::parse(text_of(runs / "b/receipt.json")))["tf32"].as_bool());
  EXPECT_THROW(Session::resume(runs / "b", {{"tf32", "false"}}, registries()), Error);
}

formats::Json trainer_of(const std::string& run) {
  return (*formats::Json::parse(*formats::read_file(run + "/checkpoints/last/state.json")))["trainer"];
}

TEST_F(DeviceSession, InF16ItIsNearTheRunInF32AndTellsItsScale) {
  ScratchFolder runs;
  TrainConfig c = config(runs / "a", "simulated");
  const TrainOutcome wide = Session(c, registries()).train();
  c.out = runs / "b";
  c.dtype = "f16";
  const TrainOutcome half = Session(c, registries()).train();
  EXPECT_EQ(half.batches_chain, wide.batches_chain);
  EXPECT_NEAR(half.first_loss, wide.first_loss, 1e-3);
  EXPECT_NEAR(half.last_validation->result.loss, wide.last_validation->result.loss,
              1e-3 * wide.last_validation->result.loss);
  std::cerr << "validation loss " << half.last_validation->result.loss << " in f16, "
            << wide.last_validation->result.loss << " in f32\n";
  EXPECT_EQ(half.loss_scale, 65536);
  EXPECT_EQ(half.overflowed_steps, 0);
  EXPECT_EQ(wide.loss_scale, 0);
  EXPECT_EQ(trainer_of(runs / "b")["loss_scale"].as_double(), 65536);
  EXPECT_EQ(trainer_of(runs / "b")["good_steps"].as_int(), half.steps);
  // Anybody evaluates it, in f32 where there is no f16.
  const Evaluation evaluation =
      evaluate_dataset({.model = {.weights = runs / "b/checkpoints/last"}, .data = data_.split, .batch = 16});
  EXPECT_NEAR(evaluation.report.loss, half.last_validation->result.loss, 1e-2);
}

TEST_F(DeviceSession, InF16ResumedIsTheSameRunBitForBitScaleIncluded) {
  ScratchFolder runs;
  TrainConfig begin = config(runs / "a", "simulated");
  begin.optimizer = "adamw";
  begin.lr = 0.002;
  begin.dtype = "f16";
  begin.epochs = 3;
  StopAfter early(2);
  Session(begin, registries(), &early).train(&early.stop);
  // From here on gradients are too large until the scale has come down, which the cut is in the middle of.
  const std::string state = runs / "a/checkpoints/last/state.json";
  const formats::Json written = value_or_throw(formats::read_json(state));
  CheckpointState changed = value_or_throw(checkpoint_state_from_json(written, state));
  ASSERT_EQ(changed.trainer.loss_scale, 65536);
  changed.trainer.loss_scale = 67108864;
  formats::Json json = to_json(changed);
  json.set("files", written["files"]);
  ASSERT_TRUE(formats::write_json(state, with_checksum(std::move(json))).ok());
  std::filesystem::copy(
      runs / "a", runs / "b",
      std::filesystem::copy_options::recursive | std::filesystem::copy_options::copy_symlinks);
  const TrainOutcome whole = Session::resume(runs / "a", {}, registries())->train();
  EXPECT_GT(whole.overflowed_steps, 5);
  EXPECT_LT(whole.overflowed_steps, whole.steps - 5);
  EXPECT_LT(whole.loss, whole.first_loss);
  std::cerr << whole.overflowed_steps << " of " << whole.steps << " steps overflowed, scale "
            << whole.loss_scale << ", loss " << whole.first_loss << " to " << whole.loss << '\n';
  StopAfter stop(5);
  EXPECT_TRUE(Session::resume(runs / "b", {}, registries(), &stop)->train(&stop.stop).stopped);
  EXPECT_GT(trainer_of(runs / "b")["loss_scale"].as_double(), whole.loss_scale);
  const TrainOutcome rest = Session::resume(runs / "b", {}, registries())->train();
  EXPECT_EQ(rest.overflowed_steps, whole.overflowed_steps);
  EXPECT_EQ(rest.loss_scale, whole.loss_scale);
  EXPECT_EQ(trainer_of(runs / "b")["good_steps"].as_int(), trainer_of(runs / "a")["good_steps"].as_int());
  for (const char* file : {"receipt.json", "metrics.jsonl", "checkpoints/last/model.safetensors",
                           "checkpoints/last/optimizer.safetensors"})
    EXPECT_EQ(text_of(runs / "a/" + file), text_of(runs / "b/" + file)) << file;
}

TEST_F(DeviceSession, ARunInF16GoesOnInOtherDtypesAndTheReverse) {
  ScratchFolder runs;
  TrainConfig half = config(runs / "a", "simulated");
  half.dtype = "f16";
  StopAfter stop(5);
  Session(half, registries(), &stop).train(&stop.stop);
  try {
    Session::resume(runs / "a", {{"device", "cpu"}});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("bf16"), std::string::npos) << error.what();
  }
  StopAfter again(8);
  Session::resume(runs / "a", {{"device", "cpu"}, {"dtype", "bf16"}}, {}, &again)->train(&again.stop);
  EXPECT_EQ(trainer_of(runs / "a")["loss_scale"].as_double(), 0);
  const TrainOutcome outcome =
      Session::resume(runs / "a", {{"device", "simulated"}, {"dtype", "f16"}}, registries())->train();
  EXPECT_EQ(outcome.loss_scale, 65536);
  EXPECT_EQ(trainer_of(runs / "a")["good_steps"].as_int(), outcome.steps - 8);
  const TrainOutcome whole = Session(config(runs / "b", "cpu")).train();
  EXPECT_EQ(outcome.batches_chain, whole.batches_chain);
  EXPECT_NEAR(outcome.last_validation->result.loss, whole.last_validation->result.loss,
              2e-2 * whole.last_validation->result.loss);
}

TEST_F(DeviceSession, ARunGoesOnOnTheHost) {
  ScratchFolder runs;
  const TrainOutcome whole = Session(config(runs / "a", "cpu")).train();
  StopAfter stop(5);
  Session(config(runs / "b", "simulated"), registries(), &stop).train(&stop.stop);
  const TrainOutcome outcome = Session::resume(runs / "b", {{"device", "cpu"}})->train();
  EXPECT_EQ(outcome.batches_chain, whole.batches_chain);
  EXPECT_NEAR(outcome.last_validation->result.loss, whole.last_validation->result.loss,
              2e-2 * whole.last_validation->result.loss);
}

TEST_F(DeviceSession, ViewsAndOtherLossesRunThere) {
  ScratchFolder runs;
  for (const char* device : {"cpu", "simulated"}) {
    TrainConfig c = config(runs / device, device);
    c.max_steps = 2;
    c.tta = "flip_translate";
    c.loss = "mse";
    c.clip = 1;
    c.accumulate = 2;
    Session(c, registries()).train();
  }
  const auto last_line = [&](const std::string& run) {
    const std::string text = text_of(runs / run + "/metrics.jsonl");
    return formats::Json::parse(std::string_view(text).substr(text.rfind('\n', text.size() - 2) + 1));
  };
  const double here = (*last_line("cpu"))["val_loss"].as_double();
  EXPECT_NEAR((*last_line("simulated"))["val_loss"].as_double(), here, 1e-3 * here);
}

TEST_F(DeviceSession, MemoryThatDoesNotSufficeNamesABatchThatShould) {
  TrainObserver observer;  // with one, memory is planned
  TrainConfig c = config("", "simulated");
  c.batch = 64;
  c.max_steps = 4;
  const int64_t before = simulated().bytes_held;
  engine::release_cached_blocks(simulated());
  int64_t held = 0;
  {
    Session session(c, registries(), &observer);
    session.train();
    held = simulated().bytes_held;
  }
  engine::release_cached_blocks(simulated());
  simulated().memory_bytes = before + (held - before) * 7 / 10;
  try {
    Session(c, registries(), &observer).train();
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kOutOfMemory);
    EXPECT_NE(std::string(error.what()).find("should fit"), std::string::npos) << error.what();
  }
  simulated().memory_bytes = int64_t{1} << 40;
}

// After the step that captures, nothing is asked of the device's allocator.
TEST_F(DeviceSession, NothingAllocatesAfterTheFirstSteps) {
  class Watcher : public TrainObserver {
   public:
    void on_step(int64_t step, double) override {
      counts[step] = engine::allocator_statistics(simulated()).device_allocations;
    }
    std::map<int64_t, int64_t> counts;
  } watcher;
  TrainConfig c = config("", "simulated");
  c.val_every = "never";
  Session(c, registries(), &watcher).train();
  ASSERT_EQ(watcher.counts.size(), 10u);
  EXPECT_EQ(watcher.counts[9], watcher.counts[6]);
}

TEST_F(DeviceSession, WhatADeviceCannotDoIsSaid) {
  TrainConfig c = config("", "simulated");
  c.optimizer = "adafactor";
  try {
    Session session(c, registries());
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("sgd"), std::string::npos) << error.what();
  }
  EXPECT_THROW(Session(config("", "tpu")), Error);
}

TEST_F(DeviceSession, EveryOpIsBenchedThere) {
  const BenchOpsReport report =
      bench_ops({.seconds = 0.01, .quick = true, .threads = 1, .device = "simulated"}, registries());
  EXPECT_GT(report.roofline.bytes_per_s, 0);
  std::map<std::string, int> timed;
  for (const OpRate& rate : report.rates) timed[rate.cost.op] += rate.note.empty() ? 1 : 0;
  for (const char* op : {"conv2d", "linear", "embedding", "layer_norm", "cross_entropy", "self_attention"})
    EXPECT_GE(timed[op], 2) << op;
}

}  // namespace
}  // namespace dlpipe::run
