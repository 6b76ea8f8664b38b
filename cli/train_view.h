// Shows how a training run goes, on stderr: a line that is overwritten on a terminal, plain lines now and
// then elsewhere. Makes the text of the tables at the end. Main thread.
#pragma once

#include <string>
#include <string_view>

#include "dlpipe/cli/progress_line.h"
#include "dlpipe/run/record/stage_report.h"
#include "dlpipe/run/train/loop/observer.h"
#include "dlpipe/run/train/loop/trainer.h"

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
  /// Takes the progress line away, so that other output can take its place.
  void end_line() { line_.clear(); }

 private:
  void print(const std::string& line);
  ProgressLine line_;
  int64_t search_shown_ns_ = 0;
};

/// "epoch 1.50/10  step 1,170/7,800  loss 0.8123 (mean of 37 steps)  lr 0.0921  1,204 samples/s  data 2.1 %  eta 1m20s  limit model"
/// `left_out`, 0 to 5, makes it shorter: without what the loss is the mean of, the rate of learning, the step, the word "samples",
/// the wait for data. What limits is left out until it is known.
std::string progress_line(const run::ProgressReport& report, int left_out = 0);
/// The stage table and its sentence.
std::string stage_table(const run::StageReport& report);
/// The ledger table, headed by what it is of; what no span covers stands by itself.
std::string ledger_table(const run::LedgerReport& report, const std::string& head = "the whole run");
/// The same of a device; "" where it has no times.
std::string device_table(const run::DeviceTimes& device);

}  // namespace dlpipe::cli
