// What a training run tells while it goes on. The program's command line draws its progress line from it;
// another program overrides what it wants. All calls come on the training thread, one apart: on_note while the first of several
// processes links pictures, when the training thread waits.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "dlpipe/run/train/step/memory_plan.h"
#include "dlpipe/run/use/evaluate.h"

namespace dlpipe::run {

struct StartReport {
  int64_t first_step = 0;  // above 0: resumed
  int64_t total_steps = 0;
  int64_t batches_per_epoch = 0;
  int64_t train_samples = 0;  // that an epoch takes
  int64_t left_out = 0;       // that each epoch leaves out, because they fill no batch; others each time
  int64_t val_samples = 0;    // 0: no validation
  int64_t parameters = 0;
  int threads = 1;
  MemoryPlan memory;  // total() is 0 where none was made
};

/// The fastest kernel for one shape on this machine is about to be searched for.
struct KernelSearch {
  std::string key;     // the op, its shape and dtype
  int64_t before = 0;  // searches of this session that are over
  double seconds = 0;  // that they took
};

struct ProgressReport {
  int64_t step = 0;  // done
  int64_t total_steps = 0;
  double epoch = 0;        // done, with fraction
  double epochs = 0;       // of the whole run
  double loss = 0;         // mean over loss_steps
  int64_t loss_steps = 0;  // since the report before whose loss is a number
  double lr = 0;
  double samples_per_s = 0;    // of training, without kernel search, validations and checkpoints
  double data_wait_share = 0;  // of the steps' wall time
  double eta_seconds = 0;
  std::string limiting_stage;  // as Judgement::limit; empty: too early to judge
  bool epoch_ended = false;
  double epoch_loss = 0;  // where it ended: mean over all of it
};

struct ValidationReport {
  int64_t step = 0;
  double epoch = 0;
  EvalReport result;
  bool is_best = false;
};

class TrainObserver {
 public:
  virtual ~TrainObserver() = default;
  virtual void on_start(const StartReport&) {}
  /// Also before on_start, where the memory plan meets a shape first. Notes say when the first begins and what all took.
  virtual void on_kernel_search(const KernelSearch&) {}
  /// Least time between two progress reports other than an epoch's last.
  virtual int64_t progress_interval_ns() const { return 500'000'000; }
  /// What happened since the report before.
  virtual void on_progress(const ProgressReport&) {}
  virtual void on_validation(const ValidationReport&) {}
  virtual void on_checkpoint(const std::string& /*directory*/, bool /*is_best*/) {}
  /// Something a person may want to know: what was chosen or done by itself, a skipped step.
  virtual void on_note(std::string_view) {}
  /// Something a person may have to act on: no validation set, or one that is the training set; files left out; an option without
  /// effect. A note, where nobody overrides it.
  virtual void on_warning(std::string_view text) { on_note(text); }
  /// After every step, outside all spans: time spent here shows as unaccounted.
  virtual void on_step(int64_t /*step*/, double /*loss*/) {}
};

}  // namespace dlpipe::run
