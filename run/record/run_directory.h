// A run directory: what stands where, who may write, and the files that grow while a run goes on.
//
//   config.toml          saved_config.h                checkpoints/     checkpoint.h
//   metrics.jsonl        a line per step, epoch, ...   events.out.*     the same for TensorBoard
//   quarantine.txt       bad records                   ledger.json      where the time went
//   kernels.json         kernel and slice choices      receipt.json     receipt.h
//   linked/, linked-val/ links to pictures             cache/           coefficient records (--cache); of a rank cache-N/
//   lock                 held while a process trains here; the system drops it when the process ends
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

#include "dlpipe/base/error.h"
#include "dlpipe/io/formats/json.h"
#include "dlpipe/io/formats/tfevents.h"

namespace dlpipe::run {

/// `name`, or where that is there "name-2", "name-3", ...: for an --out that is offered.
std::string free_run_name(const std::string& name);

class RunDirectory {
 public:
  /// Makes `path` for a new run; removed again unless start_logs is called. kMisuse when it holds one
  /// already, or what is left of one, or a dataset.
  static Result<std::unique_ptr<RunDirectory>> create(const std::string& path);
  /// An existing run. kNotFound when there is none, kMisuse when another process trains there.
  static Result<std::unique_ptr<RunDirectory>> reopen(const std::string& path);
  /// Whether a process trains in the run directory `path` now.
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

  /// For a resumed run, before the loader opens the quarantine file: cuts metrics.jsonl and quarantine.txt to
  /// what the checkpoint knew.
  Status cut_logs(int64_t metrics_bytes, int64_t quarantine_bytes);
  /// Opens metrics.jsonl and a new event file, which says that points after `step`, where the run stands, come
  /// again.
  Status start_logs(int64_t step);
  /// One line in metrics.jsonl, which holds nothing that two equal runs don't share.
  Status log_line(const formats::Json& line);
  /// Scalars in the event file; rates and times may be among them.
  Status log_scalars(int64_t step, std::span<const formats::Scalar> scalars);
  /// Sizes of metrics.jsonl and quarantine.txt, which are on disk after this: what a checkpoint keeps.
  struct LogSizes {
    int64_t metrics_bytes = 0;
    int64_t quarantine_bytes = 0;
  };
  Result<LogSizes> sync_logs();

 private:
  explicit RunDirectory(std::string path) : path_(std::move(path)) {}
  Status lock();

  std::string path_;
  bool is_new_ = false;  // made by create() and without a log yet: the destructor takes it away again
  bool made_lock_ = false;
  std::vector<std::filesystem::path> made_folders_;  // by create(), the innermost first
  int lock_fd_ = -1;
  pid_t lock_process_ = 0;
  int metrics_fd_ = -1;
  int64_t metrics_bytes_ = 0;
  std::optional<formats::EventWriter> events_;
};

}  // namespace dlpipe::run
