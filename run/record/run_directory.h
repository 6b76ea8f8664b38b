// A run directory: its files, who may write, and the logs that grow during a run.
//
//   config.toml          run_directory.h                checkpoints/     checkpoint.h
//   metrics.jsonl        a line per step, epoch, ...   events.out.*     the same for TensorBoard
//   quarantine.txt       bad records                   ledger.json      where the time went
//   kernels.json         kernel and slice choices      receipt.json     receipt.h
//   linked/, linked-val/ links to images             cache/           coefficient records (--cache); of a rank cache-N/
//   lock                 held while a process trains here; the system releases it when the process ends
//
// Belongs to one thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dlpipe/config.h"
#include "dlpipe/error.h"
#include "dlpipe/report.h"
#include "io/formats/json.h"
#include "io/formats/tfevents.h"

namespace dlpipe::run {

/// `name`, or if that exists, "name-2", "name-3" and so on; for suggesting an --out.
std::string free_run_name(const std::string& name);

class RunDirectory {
 public:
  /// Creates `path` for a new run; it is removed again unless start_logs is called. kMisuse if it already contains a run,
  /// remains of one, or a dataset.
  static Result<std::unique_ptr<RunDirectory>> create(const std::string& path);
  /// An existing run. kNotFound if there is none, kMisuse if another process is training there.
  static Result<std::unique_ptr<RunDirectory>> reopen(const std::string& path);
  /// Whether a process is training in the run directory `path`.
  static bool is_in_use(const std::string& path);
  ~RunDirectory();
  RunDirectory(const RunDirectory&) = delete;
  RunDirectory& operator=(const RunDirectory&) = delete;

  const std::string& path() const { return path_; }
  std::string file(std::string_view name) const { return path_ + "/" + std::string(name); }
  std::string config_file() const { return file("config.toml"); }
  std::string checkpoints() const { return file("checkpoints"); }
  std::string quarantine_file() const { return file("quarantine.txt"); }
  std::string kernels_file() const { return kernels_file(path_); }
  static std::string kernels_file(const std::string& path) { return path + "/kernels.json"; }
  std::string ledger_file() const { return file("ledger.json"); }
  std::string receipt_file() const { return file("receipt.json"); }
  std::string metrics_file() const { return file("metrics.jsonl"); }

  /// For a resumed run, before the loader opens the quarantine file: truncates metrics.jsonl and quarantine.txt to the sizes in
  /// the checkpoint.
  Status cut_logs(int64_t metrics_bytes, int64_t quarantine_bytes);
  /// Opens metrics.jsonl and a new event file, which records that points after `step`, the run's current step, are repeated.
  Status start_logs(int64_t step);
  /// One line in metrics.jsonl, which contains only what two equal runs share.
  Status log_line(const formats::Json& line);
  /// Scalars in the event file; rates and times may be among them.
  Status log_scalars(int64_t step, std::span<const formats::Scalar> scalars);
  /// Sizes of metrics.jsonl and quarantine.txt for a checkpoint; syncs both to disk.
  struct LogSizes {
    int64_t metrics_bytes = 0;
    int64_t quarantine_bytes = 0;
  };
  Result<LogSizes> sync_logs();

 private:
  explicit RunDirectory(std::string path) : path_(std::move(path)) {}
  Status lock();

  std::string path_;
  bool is_new_ = false;  // made by create() and without a log yet: the destructor removes it
  bool made_lock_ = false;
  std::vector<std::filesystem::path> made_folders_;  // by create(), the innermost first
  int lock_fd_ = -1;
  pid_t lock_process_ = 0;
  int metrics_fd_ = -1;
  int64_t metrics_bytes_ = 0;
  std::optional<formats::EventWriter> events_;
};

// The config.toml of a run directory, which --resume reads back: its last line has its checksum, and checkpoints/config.toml is
// a copy of it. So a truncated or edited file is detected, and the copy has the original contents.

/// Writes both atomically, the copy first.
Status save_config(const std::string& run, const TrainConfig& config);

/// Reads what save_config() wrote. Options that may change on resume may have been edited by hand; otherwise kChanged names
/// each changed option with both values, and how to continue. Runs of older programs have no checksum and are trusted.
Result<TrainConfig> load_config(const std::string& run);

/// The options of a run, for the run or one of its checkpoints; nothing if they are unknown.
std::optional<TrainConfig> config_of_run(const std::string& path);
/// The dataset that it was trained on; "" if it is unknown or no longer exists.
std::string dataset_of_run(const std::string& path);

/// The last results in metrics.jsonl of a run directory; NaN for numbers that are not finite.
struct LoggedEnd {
  std::optional<double> loss;  // of a step
  std::optional<EvalReport> validation;
};
LoggedEnd logged_end(const std::string& run);

}  // namespace dlpipe::run
