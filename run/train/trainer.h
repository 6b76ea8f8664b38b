// The training loop: steps, and around them the log, validation, checkpoints and stopping. The loop is in session.cpp
// (Trainer::train, one_step, finish). The code that logs, judges and saves is in trainer.cpp.
//
// A Trainer refers to its arguments and owns only its position in the run. It belongs to one thread, which becomes the
// ledger's. Every part of a step is in a span; all other time is unaccounted.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/counters.h"
#include "dlpipe/batch.h"
#include "dlpipe/module.h"
#include "dlpipe/optim.h"
#include "dlpipe/session.h"
#include "run/config/config.h"
#include "run/record/checkpoint.h"
#include "run/record/report.h"
#include "run/record/run_directory.h"
#include "run/train/gradients/split_weights.h"
#include "run/train/session/agreement.h"
#include "run/train/step/train_step.h"
#include "run/use/evaluate.h"

namespace dlpipe::run {

struct TrainerParts {
  engine::Module* model = nullptr;
  engine::Optimizer* optimizer = nullptr;
  engine::Ema* ema = nullptr;  // may be null
  BatchSource* train = nullptr;
  BatchSource* val = nullptr;             // may be null
  RunDirectory* directory = nullptr;      // null: nothing is written
  const SplitWeights* weights = nullptr;  // may be null: the model is whole
  engine::RankGrid ranks = {};
  TrainObserver* observer = nullptr;  // may be null
};

struct TrainerSettings {
  TrainStepOptions step;
  engine::ScheduleArguments schedule;  // total_steps is the run's length
  EvalOptions eval;
  Interval val_every{Interval::Unit::kEpochs, 1};
  Interval checkpoint_every{Interval::Unit::kSeconds, 300};
  int64_t early_stop = 0;
  int64_t keep = 2;
  bool writes = true;  // with several processes: whether the run has a directory, that of the first process
  ModelState model_state;  // goes into checkpoints
  /// When the run began, in now_ns()'s clock; time before train() is the ledger's start. 0: at train().
  int64_t begin_ns = 0;
};

/// The time from one ledger.json to the next, for a run that was `run_ns` old at the former. So they are written 1, 2, 4, 8 and
/// 16 seconds after the run began, then every 15 s.
int64_t ledger_interval_ns(int64_t run_ns);

/// Whether a multiple of `steps`, which may be a fraction, is above `step` - 1 and at most `step`.
bool is_multiple_reached(int64_t step, double steps);

class Trainer {
 public:
  Trainer(const TrainerParts& parts, const TrainerSettings& settings, const TrainerState& state);

  /// Trains to the end, or until `stop` is set (then a checkpoint is saved). Throws Error; after kNonfinite, of a step or a
  /// validation, nothing more is saved.
  TrainOutcome train(const std::atomic<bool>* stop = nullptr);

 private:
  void one_step();
  /// Logs and reports finished steps; `all`: waits for the others.
  void take_outcomes(bool all);
  void log_step(const StepOutcome& outcome);
  /// Appends the hash of the current weights to that of the earlier epochs.
  uint64_t chain_of_weights(uint64_t before) const;
  void chain_parameters();
  void validate_if_due(bool at_end);
  /// `counts`: whether it counts for early stopping. A validation at a run's end does not count if none is due, because a longer
  /// run would not have it.
  void validate(bool counts);
  void judge(const EvalReport& result, bool counts);
  /// Ends the run if the validation's loss is not finite; with --on-nonfinite skip, only reports it.
  void refuse_nonfinite(const EvalReport& result);
  void save();
  /// The contents of a checkpoint; without the optimizer's state if ranks write their shares of it.
  CheckpointTensors checkpoint_tensors() const;
  void report_progress(const StepOutcome& outcome);
  /// The run's time so far, for the outcome.
  void take_times();
  /// Writes ledger.json regularly, because `dlpipe doctor` also examines runs in progress.
  void write_ledger_if_due();
  /// Reports kernels that were chosen since the last report.
  void tell_of_searches();
  void finish();
  std::string nonfinite_advice() const;
  std::string last_checkpoint_advice() const;
  std::string resume_advice() const;
  /// With shares: records the size of each process's share.
  void note_shares();
  std::vector<int64_t> of_all_processes(int64_t mine, const char* what) const;
  bool is_due(const Interval& interval, int64_t last_ns) const;
  bool stop_requested() const { return agreement_.is_stopped(); }
  double steps_per_epoch() const;
  double epoch() const { return static_cast<double>(state_.step) / steps_per_epoch(); }

  TrainerParts parts_;
  TrainerSettings settings_;
  TrainerState state_;
  std::unique_ptr<TrainStep> step_;
  Agreement agreement_;
  std::string graph_reason_;  // as last reported
  SourceState val_begin_;     // every validation begins here, so that all see the same draws
  Ledger ledger_;
  TrainOutcome outcome_;
  const std::atomic<bool>* stop_ = nullptr;
  bool ended_ = false;  // by the source's end or --early-stop
  int64_t saved_step_ = -1;
  int64_t skipped_in_a_row_ = 0;
  int64_t searches_told_ = 0;
  int64_t ledger_written_ns_ = 0;
  int64_t finite_step_ = -1;  // the last step whose resulting weights gave a finite loss
  int64_t begin_ns_ = 0;
  int64_t last_validation_ns_ = 0;
  int64_t last_checkpoint_ns_ = 0;
  bool restarts_validation_clock_ = false;  // at the next exchange of the ranks' time
  bool restarts_checkpoint_clock_ = false;
  /// The mean over the steps with a finite loss, also over those that were skipped: theirs was measured, too.
  struct MeanLoss {
    double sum = 0;
    int64_t steps = 0;

    void add(double loss);
    double value() const;  // NaN without steps
  };
  /// Sums since some point in time.
  struct Window {
    int64_t samples = 0;
    MeanLoss loss = {};
    LedgerEntry begin = {};   // the ledger at that time
    LedgerEntry device = {};  // the device's ledger at that time
  };
  Window begin_window() const;
  Window window_;        // since the last report
  MeanLoss epoch_loss_;  // since the last epoch's end, also before a resume
};

}  // namespace dlpipe::run
