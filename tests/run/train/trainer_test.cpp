#include "run/train/trainer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include "base/counters.h"
#include "base/text.h"
#include "engine/core/parallel.h"
#include "io/formats/atomic_file.h"
#include "run/record/checkpoint.h"
#include "run/record/report.h"
#include "tests/io/formats/scratch.h"
#include "tests/run/fake_source.h"
#include "tests/run/small_net.h"

namespace dlpipe::run {

using test::FakeSource;
using test::ScratchFolder;

// Stops a run after a number of steps, and notes what it is told.
class Watcher : public TrainObserver {
 public:
  int64_t stop_after = -1;
  int64_t sleep_ms = 0;
  std::atomic<bool> stop{false};
  std::vector<ValidationReport> validations;
  std::vector<std::string> notes;
  std::vector<ProgressReport> progress;
  int64_t report_every_ns = 500'000'000;

  void on_step(int64_t step, double) override {
    if (step == stop_after) stop = true;
    if (sleep_ms > 0) std::this_thread::sleep_for(std::chrono::milliseconds(sleep_ms));
  }
  void on_progress(const ProgressReport& report) override { progress.push_back(report); }
  int64_t progress_interval_ns() const override { return report_every_ns; }
  void on_validation(const ValidationReport& report) override { validations.push_back(report); }
  void on_note(std::string_view text) override { notes.emplace_back(text); }
};

TEST(Ledger, IsWrittenSoonAndThenNowAndThen) {
  std::vector<int64_t> seconds;
  constexpr int64_t kSecond_ns = 1'000'000'000;
  for (int64_t at_ns = 0; seconds.size() < 7;) {
    at_ns += ledger_interval_ns(at_ns);
    seconds.push_back(at_ns / kSecond_ns);
  }
  EXPECT_EQ(seconds, (std::vector<int64_t>{1, 2, 4, 8, 16, 31, 46}));
}

struct RunOptions {
  int64_t samples = 60;
  int64_t batch = 8;
  int64_t side = 8;
  int64_t epochs = 4;
  int64_t accumulate = 1;
  bool with_ema = false;
  bool with_val = true;
  double lr = 0.05;
  int64_t early_stop = 0;
  bool skip_nonfinite = false;
  int64_t bright_from_step = -1;
  bool bright_val = false;      // no model gives a finite loss of it
  Interval checkpoint_every{};  // never
  Interval val_every{Interval::Unit::kEpochs, 1};
  int64_t begin_ns = 0;
};

// One session of a run in `path`: fresh, or from its latest checkpoint, as Session does with real data.
static TrainOutcome run_session(const std::string& path, const RunOptions& options, Watcher& watcher,
                                std::vector<engine::NamedTensor>* weights = nullptr) {
  FakeSource train({.samples = options.samples,
                    .batch = options.batch,
                    .side = options.side,
                    .bright_from_step = options.bright_from_step});
  FakeSource val({.samples = 30,
                  .batch = 8,
                  .side = options.side,
                  .epochs = 1,
                  .seed = 1,
                  .shuffle = false,
                  .bright_from_step = options.bright_val ? 0 : -1});
  const auto net = test::small_net(options.side, 4, 1, 0.2);
  engine::OptimizerArguments arguments;
  arguments.weight_decay = 1e-3;
  const auto optimizer = (*engine::find_optimizer("adamw"))->build(net->parameters(), arguments);
  std::unique_ptr<engine::Ema> ema;
  if (options.with_ema) ema = std::make_unique<engine::Ema>(*net, 0.9);

  TrainerState state;
  const bool is_resumed = std::filesystem::exists(path + "/config.toml");
  auto directory = is_resumed ? *RunDirectory::reopen(path) : *RunDirectory::create(path);
  const std::vector<std::string> checkpoints = *list_checkpoints(directory->checkpoints());
  if (!checkpoints.empty()) {
    const Checkpoint checkpoint = *load_checkpoint(checkpoints.front());
    state = checkpoint.state.trainer;
    net->load_state_dict(checkpoint.tensors.model);
    optimizer->load_state(checkpoint.tensors.optimizer);
    if (ema != nullptr) ema->load_state(checkpoint.tensors.ema);
    throw_if_error(train.seek(checkpoint.state.source));
  }
  if (is_resumed) throw_if_error(directory->cut_logs(state.metrics_bytes, state.quarantine_bytes));
  throw_if_error(directory->start_logs(state.step));
  std::ofstream(directory->config_file()) << "";

  TrainerParts parts;
  parts.model = net.get();
  parts.optimizer = optimizer.get();
  parts.ema = ema.get();
  parts.train = &train;
  parts.val = options.with_val ? &val : nullptr;
  parts.directory = directory.get();
  parts.observer = &watcher;
  TrainerSettings settings;
  settings.step.accumulate = options.accumulate;
  settings.step.seed = 5;
  settings.step.loss = *find_loss("cross_entropy");
  settings.step.skip_nonfinite = options.skip_nonfinite;
  settings.eval.loss = settings.step.loss;
  settings.eval.metrics = {*engine::find_metric("top1")};
  settings.schedule.lr = options.lr;
  settings.schedule.total_steps = options.epochs * train.batches_per_epoch() / options.accumulate;
  settings.early_stop = options.early_stop;
  settings.checkpoint_every = options.checkpoint_every;
  settings.val_every = options.val_every;
  settings.begin_ns = options.begin_ns;
  settings.model_state.model = "small";
  settings.model_state.arguments = {4, 1, 8, 8, 1};
  const TrainOutcome outcome = Trainer(parts, settings, state).train(&watcher.stop);
  if (weights != nullptr) {
    for (const engine::NamedTensor& named : net->state_dict())
      weights->push_back({named.name, named.tensor.clone()});
  }
  return outcome;
}

static std::string metrics_of(const std::string& path) {
  return *formats::read_file(path + "/metrics.jsonl");
}

/// The mean loss of each epoch that ended, by the step.
static std::map<int64_t, double> epoch_losses(const Watcher& watcher) {
  std::map<int64_t, double> losses;
  for (const ProgressReport& report : watcher.progress) {
    if (report.epoch_ended) losses[report.step] = report.epoch_loss;
  }
  return losses;
}

// A run that is stopped at `steps` in turn and resumed each time, with another number of threads.
static void expect_resume_is_exact(const RunOptions& options, const std::vector<int64_t>& stops) {
  ScratchFolder folder;
  Watcher undisturbed;
  std::vector<engine::NamedTensor> wanted;
  const TrainOutcome whole = run_session(folder / "whole", options, undisturbed, &wanted);
  TrainOutcome last;
  std::vector<engine::NamedTensor> got;
  std::map<int64_t, double> epochs;
  int threads = 1;
  for (size_t i = 0; i <= stops.size(); ++i) {
    engine::set_engine_threads(threads++);
    Watcher watcher;
    watcher.stop_after = i < stops.size() ? stops[i] : -1;
    got.clear();
    last = run_session(folder / "parts", options, watcher, &got);
    ASSERT_EQ(last.stopped, i < stops.size());
    epochs.merge(epoch_losses(watcher));
  }
  EXPECT_EQ(epochs, epoch_losses(undisturbed)) << "of whole epochs, not of what came after a resume";
  EXPECT_EQ(hash_tensors(got, 0), hash_tensors(wanted, 0));
  EXPECT_EQ(metrics_of(folder / "parts"), metrics_of(folder / "whole"));
  EXPECT_EQ(last.parameters_chain, whole.parameters_chain);
  EXPECT_EQ(last.batches_chain, whole.batches_chain);
  EXPECT_EQ(last.best, whole.best);
  EXPECT_EQ(last.best_step, whole.best_step);
}

TEST(Trainer, ResumesBitForBitInMidEpochWithOtherThreadCounts) {
  expect_resume_is_exact({}, {3, 11, 12, 20});
}

TEST(Trainer, ResumesBitForBitAtEpochEndsWhereAValidationIsDue) {
  expect_resume_is_exact({}, {8, 16});
}

TEST(Trainer, ResumesBitForBitWithAccumulationAndAverages) {
  expect_resume_is_exact({.accumulate = 3, .with_ema = true}, {2, 5, 7});
}

TEST(Trainer, ARunThatIsDoneStaysDone) {
  ScratchFolder folder;
  Watcher watcher;
  const TrainOutcome first = run_session(folder / "run", {}, watcher);
  const std::string metrics = metrics_of(folder / "run");
  const TrainOutcome second = run_session(folder / "run", {}, watcher);
  EXPECT_EQ(second.steps, first.steps);
  EXPECT_EQ(second.samples, 0);
  EXPECT_EQ(second.parameters_chain, first.parameters_chain);
  EXPECT_EQ(metrics_of(folder / "run"), metrics);
}

// Time that no span covers is in every run; a thread that the system stops between two spans is not.
TEST(Trainer, TheLedgerAddsUp) {
  ScratchFolder folder;
  double least_share = 1;
  for (int attempt = 0; attempt < 3 && least_share >= LedgerReport::kMaxUnaccounted; ++attempt) {
    Watcher watcher;
    const TrainOutcome outcome =
        run_session(folder / concat("run", attempt), {.samples = 1024, .batch = 128, .side = 48}, watcher);
    least_share = std::min(least_share, report_ledger(outcome.ledger).unaccounted_share);
  }
  EXPECT_LT(least_share, LedgerReport::kMaxUnaccounted);
}

// The last step comes before the last validation and checkpoint, and start-up before the first.
TEST(Trainer, TheLedgerHoldsWhatComesBeforeTheFirstAndAfterTheLastStep) {
  ScratchFolder folder;
  Watcher watcher;
  const int64_t begin_ns = now_ns();
  const TrainOutcome outcome =
      run_session(folder / "run",
                  {.epochs = 2, .val_every = {Interval::Unit::kEpochs, 50}, .begin_ns = begin_ns}, watcher);
  const int64_t wall_ns = now_ns() - begin_ns;
  const auto ns = [&](Span span) { return outcome.ledger.span_ns[static_cast<size_t>(span)]; };
  EXPECT_GT(ns(Span::kStart), 0);
  EXPECT_GT(ns(Span::kValidation), 0) << "after the last step";
  EXPECT_GT(ns(Span::kCheckpoint), 0) << "after the last step";
  EXPECT_LE(outcome.ledger.wall_ns, wall_ns);
  EXPECT_EQ(outcome.ledger.training_ns() + ns(Span::kStart) + ns(Span::kValidation) + ns(Span::kCheckpoint),
            outcome.ledger.wall_ns);
}

// A line says the loss since the line before, at an epoch's end, too, where the epoch's mean stands by itself.
TEST(Trainer, TheLastReportOfAnEpochIsOfItsIntervalLikeTheOthers) {
  ScratchFolder folder;
  Watcher watcher;
  watcher.report_every_ns = 0;  // after every step
  std::vector<double> losses;
  run_session(folder / "run", {.epochs = 2, .with_val = false}, watcher);
  std::istringstream lines(metrics_of(folder / "run"));
  for (std::string line; std::getline(lines, line);) {
    const formats::Json json = *formats::Json::parse(line);
    if (json.contains("loss")) losses.push_back(json["loss"].as_double());
  }
  ASSERT_EQ(watcher.progress.size(), losses.size());
  double sum = 0;
  int64_t steps = 0;
  for (size_t i = 0; i < losses.size(); ++i) {
    EXPECT_DOUBLE_EQ(watcher.progress[i].loss, losses[i]);
    EXPECT_EQ(watcher.progress[i].loss_steps, 1);
    sum += losses[i];
    ++steps;
    if (!watcher.progress[i].epoch_ended) continue;
    EXPECT_NEAR(watcher.progress[i].epoch_loss, sum / static_cast<double>(steps), 1e-12);
    sum = 0;
    steps = 0;
  }
  EXPECT_EQ(steps, 0) << "the run ends with an epoch";
}

TEST(Trainer, AnUnmarkedSleepOf20MillisecondsShowsAsUnaccounted) {
  ScratchFolder folder;
  Watcher watcher;
  watcher.sleep_ms = 20;
  const TrainOutcome outcome = run_session(folder / "run", {.epochs = 2}, watcher);
  const LedgerReport report = report_ledger(outcome.ledger);
  EXPECT_FALSE(report.adds_up());
  EXPECT_GE(report.unaccounted_seconds, 0.020 * static_cast<double>(outcome.steps));
}

// Whatever binary fractions make of it: an epoch ends with its last step, or with the one in which that lies.
TEST(Trainer, SharesOfAnEpochEndWithItsSteps) {
  for (int64_t accumulate = 1; accumulate <= 16; ++accumulate) {
    for (int64_t batches = accumulate; batches <= 60; ++batches) {
      int64_t reached = 0;
      for (int64_t step = 1; step <= 4 * batches; ++step) {
        if (is_multiple_reached(step, static_cast<double>(batches) / static_cast<double>(accumulate)))
          ++reached;
        const int64_t epochs = step * accumulate / batches;
        ASSERT_EQ(reached, epochs) << batches << "/" << accumulate << ", step " << step;
      }
    }
  }
  for (int64_t step = 1; step <= 700; ++step)
    EXPECT_EQ(is_multiple_reached(step, 0.1 * 70), step % 7 == 0) << step;
}

TEST(Trainer, StopsEarlyWhenValidationGetsNoBetter) {
  ScratchFolder folder;
  Watcher watcher;
  const TrainOutcome outcome = run_session(folder / "run", {.epochs = 50, .lr = 0, .early_stop = 3}, watcher);
  EXPECT_TRUE(outcome.early_stopped);
  EXPECT_EQ(watcher.validations.size(), 4u);  // the first is the best, three more are no better
  Watcher again;
  const TrainOutcome more = run_session(folder / "run", {.epochs = 50, .lr = 0, .early_stop = 3}, again);
  EXPECT_EQ(more.samples, 0);
  EXPECT_TRUE(more.early_stopped) << "why nothing was left";
}

// A run that is made longer has one validation more than one that was as long from the beginning.
TEST(Trainer, TheValidationOfARunsEndDoesNotCountForEarlyStopping) {
  ScratchFolder folder;
  const auto run = [&](const std::string& name, int64_t epochs) {
    Watcher watcher;
    const RunOptions options{
        .epochs = epochs, .lr = 0, .early_stop = 2, .val_every = {Interval::Unit::kEpochs, 2}};
    run_session(folder / name, options, watcher);
    std::vector<int64_t> steps;
    for (const ValidationReport& report : watcher.validations) steps.push_back(report.step);
    return steps;
  };
  EXPECT_EQ(run("whole", 12), (std::vector<int64_t>{16, 32, 48}));
  EXPECT_EQ(run("parts", 3), (std::vector<int64_t>{16, 24}));
  EXPECT_EQ(run("parts", 12), (std::vector<int64_t>{32, 48}));
}

TEST(Trainer, AMeanLossLeavesOutSkippedSteps) {
  ScratchFolder folder;
  Watcher watcher;
  run_session(folder / "run", {.epochs = 2, .skip_nonfinite = true, .bright_from_step = 4}, watcher);
  std::vector<bool> is_number;
  for (const ProgressReport& report : watcher.progress) {
    if (report.epoch_ended) is_number.push_back(std::isfinite(report.epoch_loss));
  }
  EXPECT_EQ(is_number, (std::vector<bool>{true, false})) << "of steps 1 to 4, and of none";
}

TEST(Trainer, TheBestCheckpointIsTheBestValidation) {
  ScratchFolder folder;
  Watcher watcher;
  const TrainOutcome outcome = run_session(folder / "run", {.epochs = 6}, watcher);
  double best = -1;
  for (const ValidationReport& report : watcher.validations)
    best = std::max(best, report.result.value("top1"));
  EXPECT_EQ(outcome.best, best);
  EXPECT_EQ(load_checkpoint(folder / "run/checkpoints/best")->state.trainer.step, outcome.best_step);
  EXPECT_EQ(load_checkpoint(folder / "run/checkpoints/last")->state.trainer.step, outcome.steps);
}

TEST(Trainer, ANonfiniteLossKeepsTheLastGoodCheckpoint) {
  ScratchFolder folder;
  Watcher watcher;
  const RunOptions options{.bright_from_step = 10, .checkpoint_every = {Interval::Unit::kSteps, 4}};
  std::string said;
  try {
    run_session(folder / "run", options, watcher);
  } catch (const Error& error) {
    said = error.what();
  }
  const std::string logged = metrics_of(folder / "run");
  EXPECT_NE(logged.find("\"step\":10,"), std::string::npos) << logged;
  EXPECT_NE(said.find("[train] step 11: "), std::string::npos)
      << "the one after the last one of the log: " << said;
  const auto checkpoint = load_checkpoint(folder / "run/checkpoints/last");
  ASSERT_TRUE(checkpoint.ok());
  EXPECT_EQ(checkpoint->state.trainer.step, 8);
}

/// What a run that fails says; "" where it doesn't.
static std::string error_of(const std::string& path, const RunOptions& options, Watcher& watcher) {
  try {
    run_session(path, options, watcher);
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNonfinite);
    return error.what();
  }
}

// Weights are known to be good when a step or a validation with them gave a finite loss.
TEST(Trainer, ACheckpointWhoseNextStepIsNotFiniteIsNotCalledGood) {
  ScratchFolder folder;
  Watcher watcher;
  const RunOptions options{
      .with_val = false, .bright_from_step = 8, .checkpoint_every = {Interval::Unit::kSteps, 4}};
  const std::string said = error_of(folder / "run", options, watcher);
  EXPECT_NE(said.find(concat("; the last checkpoint is ", folder / "run/checkpoints/step-000000008",
                             ", and its weights may have diverged; the last good checkpoint is ",
                             folder / "run/checkpoints/step-000000004")),
            std::string::npos)
      << said;
  const std::string again = error_of(folder / "run", options, watcher);
  EXPECT_NE(again.find("step-000000008, and its weights may have diverged"), std::string::npos) << again;
  EXPECT_EQ(again.find("good"), std::string::npos) << "this session knows of none: " << again;
}

TEST(Trainer, AValidationWhoseLossIsNotFiniteEndsTheRunAndIsNotTheBest) {
  ScratchFolder folder;
  Watcher watcher;
  const std::string said = error_of(
      folder / "run", {.bright_val = true, .checkpoint_every = {Interval::Unit::kSteps, 4}}, watcher);
  EXPECT_NE(said.find("[train] validation after step 8: the loss is not finite; try a lower --lr"),
            std::string::npos)
      << said;
  EXPECT_NE(said.find(concat("; the last good checkpoint is ", folder / "run/checkpoints/step-000000004")),
            std::string::npos)
      << said;
  ASSERT_EQ(watcher.validations.size(), 1u) << "it is told before the run ends";
  EXPECT_FALSE(watcher.validations.front().is_best);
  EXPECT_FALSE(std::filesystem::exists(folder / "run/checkpoints/best"));
  EXPECT_NE(metrics_of(folder / "run").find("val_loss"), std::string::npos);
}

TEST(Trainer, SkippingNonfiniteStepsGoesOnPastAValidationThatIsNotFinite) {
  ScratchFolder folder;
  Watcher watcher;
  const TrainOutcome outcome =
      run_session(folder / "run", {.epochs = 2, .skip_nonfinite = true, .bright_val = true}, watcher);
  EXPECT_EQ(outcome.steps, 16);
  EXPECT_EQ(outcome.best_step, -1);
  EXPECT_FALSE(std::filesystem::exists(folder / "run/checkpoints/best"));
  ASSERT_EQ(watcher.notes.size(), 2u);
  EXPECT_NE(watcher.notes.front().find("validation after step 8: the loss is not finite"), std::string::npos)
      << watcher.notes.front();
}

TEST(Trainer, SkippingNonfiniteStepsEndsAfterTooManyInARow) {
  ScratchFolder folder;
  Watcher watcher;
  const RunOptions options{.epochs = 40, .with_val = false, .skip_nonfinite = true, .bright_from_step = 10};
  EXPECT_THROW(run_session(folder / "run", options, watcher), Error);
  EXPECT_EQ(watcher.notes.size(), 100u);
}

TEST(Trainer, WithoutAValidationSetItJustTrains) {
  ScratchFolder folder;
  Watcher watcher;
  const TrainOutcome outcome = run_session(folder / "run", {.with_val = false}, watcher);
  EXPECT_FALSE(outcome.last_validation.has_value());
  EXPECT_EQ(outcome.best_step, -1);
}

TEST(Trainer, ValidatesTheAveragedWeightsAndKeepsItsOwn) {
  ScratchFolder folder;
  Watcher watcher;
  std::vector<engine::NamedTensor> with_val;
  std::vector<engine::NamedTensor> without;
  run_session(folder / "a", {.with_ema = true}, watcher, &with_val);
  run_session(folder / "b", {.with_ema = true, .with_val = false}, watcher, &without);
  EXPECT_EQ(hash_tensors(with_val, 0), hash_tensors(without, 0));
}

TEST(Trainer, MetricsHoldALineForEachStepEachValidationAndEachEpochsWeights) {
  ScratchFolder folder;
  Watcher watcher;
  const TrainOutcome outcome = run_session(folder / "run", {}, watcher);
  std::istringstream lines(metrics_of(folder / "run"));
  int64_t steps = 0;
  int64_t validations = 0;
  int64_t epochs = 0;
  for (std::string line; std::getline(lines, line);) {
    const auto json = formats::Json::parse(line);
    ASSERT_TRUE(json.ok()) << line;
    if (json->contains("val_loss")) {
      ++validations;
      EXPECT_TRUE((*json)["val_top1"].is_number());
    } else if (json->contains("parameters_chain")) {
      EXPECT_EQ((*json)["step"].as_int(), steps) << "behind the epoch's last step";
      EXPECT_EQ((*json)["parameters_chain"].as_string().size(), 16u);
      ++epochs;
    } else {
      EXPECT_EQ((*json)["step"].as_int(), ++steps);
      EXPECT_TRUE((*json)["loss"].is_number());
    }
  }
  EXPECT_EQ(steps, outcome.steps);
  EXPECT_EQ(validations, static_cast<int64_t>(watcher.validations.size()));
  EXPECT_EQ(epochs, RunOptions().epochs);
}

}  // namespace dlpipe::run
