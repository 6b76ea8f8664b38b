// Training: a Session builds the dataset, the model and the training loop from one TrainConfig.
//
//   dlpipe::run::TrainConfig config;
//   config.data = "DST/train";
//   config.model = "resnet18";
//   config.augment = "rrc(224) hflip";
//   config.out = "runs/a";
//   dlpipe::run::Session session(config);
//   const dlpipe::run::TrainOutcome outcome = session.train();
//
// Errors are thrown as dlpipe::Error. Without `out` nothing is written.
//
// Ownership: a Session owns its data, its model and the lock of its run directory. The caller owns the observer, the
// registries' records and the ranks, which must outlive it. Threads: construct it and train on one thread, on which the
// observer is called; the loaders have their own threads. The engine's number of threads is set for the process. Cost: the
// constructor opens the data, builds the model and tries two small steps; train() runs to the end.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dlpipe/config.h"
#include "dlpipe/error.h"
#include "dlpipe/report.h"
#include "dlpipe/stats.h"

namespace dlpipe::engine {
class Collective;  // the processes that compute one run together: `dlpipe launch`
class Module;
}  // namespace dlpipe::engine

namespace dlpipe::run {

// ---- what a run reports while it trains. All calls are on the training thread, except on_note while the
// first of several processes links images: the training thread waits meanwhile

struct StartReport {
  int64_t first_step = 0;  // above 0: resumed
  int64_t total_steps = 0;
  int64_t batches_per_epoch = 0;
  int64_t train_samples = 0;  // used in each epoch
  int64_t left_out = 0;  // not used in an epoch, because they don't fill a batch; different ones each epoch
  int64_t val_samples = 0;  // 0: no validation
  int64_t parameters = 0;
  int threads = 1;
  MemoryPlan memory;  // total() is 0 if there is none
};

/// The search for the fastest kernel for one shape on this machine is about to begin.
struct KernelSearch {
  std::string key;     // the op, its shape and dtype
  int64_t before = 0;  // finished searches of this session
  double seconds = 0;  // the time that they took
};

struct ProgressReport {
  int64_t step = 0;  // steps done
  int64_t total_steps = 0;
  double epoch = 0;        // epochs done, with fraction
  double epochs = 0;       // of the whole run
  double loss = 0;         // mean over loss_steps
  int64_t loss_steps = 0;  // steps since the last report with a loss that is not NaN
  double lr = 0;
  double samples_per_s = 0;    // of training, without kernel search, validations and checkpoints
  double data_wait_share = 0;  // of the steps' wall time
  double eta_seconds = 0;
  std::string limiting_stage;  // as StageReport::limit; empty: too early to tell
  bool epoch_ended = false;
  double epoch_loss = 0;  // if the epoch ended: mean over the whole epoch
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
  /// May be called before on_start, if the memory plan needs a new shape. Notes report the first search and the total time.
  virtual void on_kernel_search(const KernelSearch&) {}
  /// Minimum time between two progress reports. The last report of an epoch is not delayed.
  virtual int64_t progress_interval_ns() const { return 500'000'000; }
  /// Reports what happened since the last report.
  virtual void on_progress(const ProgressReport&) {}
  virtual void on_validation(const ValidationReport&) {}
  virtual void on_checkpoint(const std::string& /*directory*/, bool /*is_best*/) {}
  /// Information for the user: what was chosen or done automatically, a skipped step.
  virtual void on_note(std::string_view) {}
  /// Something that may need the user's attention: no validation set, or one that equals the training set; skipped files; an
  /// option without effect. By default calls on_note().
  virtual void on_warning(std::string_view text) { on_note(text); }
  /// After every step, outside all spans: time spent here shows as unaccounted.
  virtual void on_step(int64_t /*step*/, double /*loss*/) {}
};

// ---- the result

struct TrainOutcome {
  int64_t steps = 0;           // of the whole run
  int64_t first_step = 0;      // steps done by earlier sessions
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
  DeviceTimes device;                    // zero steps: trained on the host
  SourceStats stats;                     // of the training source
  CollectiveStats collective;            // of this process; zero operations: there is only one process
  std::vector<int64_t> optimizer_bytes;  // of the optimizer's state, by process; empty: it isn't sharded
  std::vector<int64_t> gradient_bytes;   // of the summed gradients that the last update used, by process
  MemoryPlan memory_plan;                // total() is 0 if there is none
  uint64_t memory_bytes = 0;             // peak of tensors, scratch and slots

  /// Fraction of the time that training waited for data, measured on the device if there is one, else on the host.
  double data_wait_share() const;
  /// The pipeline's stages, and with several processes the communication thread.
  StageReport stages() const;
};

// ---- the session

class Session {
 public:
  /// Opens the data, builds the model, makes the run directory. `observer` may be null and must outlive the Session.
  /// `ranks`: the processes that compute the run together, each with a Session of the same config; only the first
  /// writes, and the others need no observer. Must outlive the Session; null: there is only this process.
  explicit Session(const TrainConfig& config, const Registries& registries = {},
                   TrainObserver* observer = nullptr, engine::Collective* ranks = nullptr);
  /// Resumes a run from its latest checkpoint, with the same losses and weights, bit for bit, as if
  /// it had never stopped. `changes` are options (name, text) to change; only some may be changed.
  static std::unique_ptr<Session> resume(const std::string& run_directory,
                                         const std::vector<std::pair<std::string, std::string>>& changes = {},
                                         const Registries& registries = {}, TrainObserver* observer = nullptr,
                                         engine::Collective* ranks = nullptr);
  ~Session();

  /// Trains to the configured end, or until `stop` is set. If stopped, saves a checkpoint and sets outcome.stopped.
  /// Call it once.
  TrainOutcome train(const std::atomic<bool>* stop = nullptr);

  /// Sets when the ledger's time begins, on the clock of now_ns(); default: the Session's construction.
  void count_time_from(int64_t ns);

  /// The options of the run, completed by what was detected.
  const TrainConfig& config() const;
  /// With --tensor-parallel and --pipeline-parallel, this rank's part of the model.
  engine::Module& model();
  const std::vector<std::string>& classes() const;
  /// The chain for validation images, including normalisation.
  const std::string& validation_augment() const;
  int threads() const;

 private:
  class Impl;  // session.cpp
  explicit Session(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace dlpipe::run
