// The training loop: steps, and around them the log, validation, checkpoints, stopping.
//
// A Trainer refers to what it is given and owns only its place in the run. It belongs to one thread, which
// becomes the ledger's. Every part of a step lies in a span; what doesn't shows as unaccounted.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dlpipe/base/batch_source.h"
#include "dlpipe/base/ledger.h"
#include "dlpipe/engine/layers/module.h"
#include "dlpipe/engine/optim/optimizer.h"
#include "dlpipe/run/config/config.h"
#include "dlpipe/run/record/checkpoint.h"
#include "dlpipe/run/record/run_directory.h"
#include "dlpipe/run/record/stage_report.h"
#include "dlpipe/run/train/gradients/split_weights.h"
#include "dlpipe/run/train/loop/agreement.h"
#include "dlpipe/run/train/loop/observer.h"
#include "dlpipe/run/train/step/train_step.h"
#include "dlpipe/run/use/evaluate.h"

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
  bool writes = true;      // of several processes: whether the run has a directory, which is the first one's
  ModelState model_state;  // goes into checkpoints
  /// When the run began, as now_ns() counts; time before train() is the ledger's start. 0: at train().
  int64_t begin_ns = 0;
};

struct TrainOutcome {
  int64_t steps = 0;           // of the whole run
  int64_t samples = 0;         // trained on in this session
  double seconds = 0;          // of this session's training, without its start
  double first_loss = 0;       // of this session's first step
  double loss = 0;             // of the last step
  bool stopped = false;        // by a signal, after saving
  bool early_stopped = false;  // by --early-stop
  std::optional<ValidationReport> last_validation;
  double best = 0;
  int64_t best_step = -1;
  int64_t skipped_steps = 0;
  int64_t overflowed_steps = 0;  // skipped because the loss scale was too large
  double loss_scale = 0;         // of the last step; 0: the loss isn't scaled
  uint64_t batches_chain = 0;
  uint64_t parameters_chain = 0;
  LedgerEntry ledger;                    // from the run's begin to its last checkpoint
  DeviceTimes device;                    // no steps: it was the host
  SourceStats stats;                     // of the training source
  engine::CollectiveStats collective;    // of this process; no operation: it is alone
  std::vector<int64_t> optimizer_bytes;  // of the optimizer's state, by process; empty: it isn't shared out
  std::vector<int64_t> gradient_bytes;   // and of the gradients' sums that the last update took
  MemoryPlan memory_plan;                // total() is 0 where none was made
  uint64_t memory_bytes = 0;             // most that tensors, scratch and slots took

  /// Share of the time that training waited for data: of the device's where there is one, else of the host's.
  double data_wait_share() const;
  /// The pipeline's stages, and with several processes the communication thread.
  StageReport stages() const;
};

/// ledger.json, of the run so far or, with `is_over`, of all of it.
Status write_ledger(const RunDirectory& directory, const TrainOutcome& outcome, bool is_over);

/// How long after the last ledger.json the next one is due, of a run that was `run_ns` old then: after 1, 2, 4 and 8 seconds there is
/// something to look at, from then on every 15 s.
int64_t ledger_interval_ns(int64_t run_ns);

/// Whether a multiple of `steps`, which may be a fraction, lies behind the step before `step` and not behind that one.
bool is_multiple_reached(int64_t step, double steps);

class Trainer {
 public:
  Trainer(const TrainerParts& parts, const TrainerSettings& settings, const TrainerState& state);

  /// To the end, or until `stop` is set (then a checkpoint is saved). Throws Error; kNonfinite, of a step or of a
  /// validation, saves nothing more.
  TrainOutcome train(const std::atomic<bool>* stop = nullptr);

 private:
  void one_step();
  /// Logs and reports steps that are over; `all`: waits for those that aren't.
  void take_outcomes(bool all);
  void log_step(const StepOutcome& outcome);
  void chain_parameters();
  void validate_if_due(bool at_end);
  /// `counts`: for early stopping. The one at a run's end doesn't where none is due: a longer run would not have it.
  void validate(bool counts);
  void judge(const EvalReport& result, bool counts);
  /// A validation whose loss isn't finite ends the run, or with --on-nonfinite skip is told.
  void refuse_nonfinite(const EvalReport& result);
  void save();
  /// What a checkpoint holds, whole; of the optimizer's state nothing where ranks write their shares of it.
  CheckpointTensors checkpoint_tensors() const;
  void report_progress(const StepOutcome& outcome);
  /// What the outcome says of the run's time so far.
  void take_times();
  /// Every so often: `dlpipe doctor` also looks at runs that are still going.
  void write_ledger_if_due();
  /// Once more kernels were chosen since it last did.
  void tell_of_searches();
  void validate_and_save();
  void run_steps();
  void finish();
  std::string nonfinite_advice() const;
  std::string last_checkpoint_advice() const;
  std::string resume_advice() const;
  /// With shares: what each process has of them.
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
  std::string graph_reason_;   // as last told
  std::string replay_reason_;  // likewise
  SourceState val_begin_;      // every validation begins here, so that all see the same draws
  Ledger ledger_;
  TrainOutcome outcome_;
  const std::atomic<bool>* stop_ = nullptr;
  bool ended_ = false;  // by the source's end or --early-stop
  int64_t saved_step_ = -1;
  int64_t skipped_in_a_row_ = 0;
  int64_t searches_told_ = 0;
  int64_t ledger_written_ns_ = 0;
  int64_t finite_step_ =
      -1;  // the last step whose weights, with which the next one begins, have given a finite loss
  int64_t begin_ns_ = 0;
  int64_t last_validation_ns_ = 0;
  int64_t last_checkpoint_ns_ = 0;
  bool restarts_validation_clock_ = false;  // when the ranks are asked for the time again
  bool restarts_checkpoint_clock_ = false;
  /// Of steps whose loss is a number: one that is skipped counts as little here as in the weights.
  struct MeanLoss {
    double sum = 0;
    int64_t steps = 0;

    void add(double loss);
    double value() const;  // NaN without any
  };
  /// Sums since a moment.
  struct Window {
    int64_t samples = 0;
    MeanLoss loss = {};
    LedgerEntry begin = {};   // the ledger at that moment
    LedgerEntry device = {};  // and a device's
  };
  Window begin_window() const;
  Window window_;        // since the last report
  MeanLoss epoch_loss_;  // since the last epoch's end, also before a resume
};

}  // namespace dlpipe::run
