// Shows the progress of a training run on stderr, and formats the tables at its end. Main thread.
#pragma once

#include <string>
#include <string_view>

#include "cli/output.h"
#include "dlpipe/session.h"
#include "run/record/report.h"
#include "run/train/trainer.h"

namespace dlpipe::cli {

class TrainView : public run::TrainObserver {
 public:
  void on_start(const run::StartReport& report) override;
  void on_kernel_search(const run::KernelSearch& search) override;
  int64_t progress_interval_ns() const override;
  void on_progress(const run::ProgressReport& report) override;
  void on_validation(const run::ValidationReport& report) override;
  void on_note(std::string_view text) override;
  void on_warning(std::string_view text) override;
  /// Erases the progress line, so that other output can take its place.
  void end_line() { line_.clear(); }

 private:
  void print(const std::string& line);
  ProgressLine line_;
  int64_t search_shown_ns_ = 0;
};

/// The value of a metric: "91.20 %" for a share of samples, "0.2911" for others.
std::string metric_text(const std::string& name, double value);
/// The stage table and its sentence.
std::string stage_table(const run::StageReport& report);
/// The ledger table under the heading `head`, with a line for the time that no span covers.
std::string ledger_table(const run::LedgerReport& report, const std::string& head);
/// The ledger table of a device; "" if it has no times.
std::string device_table(const run::DeviceTimes& device);

}  // namespace dlpipe::cli
