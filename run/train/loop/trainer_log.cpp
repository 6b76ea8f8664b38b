// What the loop says of its steps: lines and scalars of the log, progress, and shares of time.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "dlpipe/base/counter.h"
#include "dlpipe/base/text.h"
#include "dlpipe/engine/core/kernel_table.h"
#include "dlpipe/engine/core/measured_kernels.h"
#include "dlpipe/io/formats/atomic_file.h"
#include "dlpipe/run/record/stage_report.h"
#include "dlpipe/run/train/loop/trainer.h"

namespace dlpipe::run {

namespace {

using formats::Json;
using formats::Scalar;

constexpr int64_t kMaxSkippedInARow = 100;

double share(int64_t part, int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}

int64_t span_ns(const LedgerEntry& entry, Span span) {
  return entry.span_ns[static_cast<size_t>(span)];
}

int64_t data_ns(const LedgerEntry& entry) {
  return span_ns(entry, Span::kDataDecode) + span_ns(entry, Span::kDataIdle);
}

}  // namespace

double TrainOutcome::data_wait_share() const {
  if (device.steps > 0) return device.wait_share();
  return share(data_ns(ledger), ledger.training_ns());
}

StageReport TrainOutcome::stages() const {
  StageReport report = report_stages(stats, data_wait_share(), ledger.training_ns());
  weigh_training(ledger, report);
  if (collective.operations > 0) add_communication(collective, ledger, samples, report);
  return report;
}

Status write_ledger(const RunDirectory& directory, const TrainOutcome& outcome, bool is_over) {
  Json json = to_json(report_ledger(outcome.ledger), outcome.stages(), outcome.device, outcome.steps);
  json.set("finished", is_over);
  if (outcome.stopped) json.set("stopped", true);
  return formats::write_json(directory.ledger_file(), json);
}

void Trainer::take_times() {
  outcome_.steps = state_.step;
  outcome_.ledger = ledger_.so_far();
  outcome_.device = step_->device_times();
  outcome_.stats = parts_.train->stats();
  if (parts_.ranks.all != nullptr) outcome_.collective = parts_.ranks.all->stats();
}

int64_t ledger_interval_ns(int64_t run_ns) {
  constexpr int64_t kFirst_ns = 1'000'000'000, kMost_ns = 15'000'000'000;
  return std::clamp(run_ns, kFirst_ns, kMost_ns);
}

void Trainer::write_ledger_if_due() {
  if (parts_.directory == nullptr) return;
  const int64_t now = now_ns(), last = std::max(ledger_written_ns_, begin_ns_);
  if (now - last < ledger_interval_ns(last - begin_ns_)) return;
  ledger_written_ns_ = now;
  take_times();
  throw_if_error(write_ledger(*parts_.directory, outcome_, false));
}

void Trainer::log_step(const StepOutcome& outcome) {
  const SpanScope span(Span::kLogging);
  if (outcome_.samples == 0) outcome_.first_loss = outcome.loss;
  outcome_.samples += outcome.samples;
  outcome_.loss = outcome.loss;
  outcome_.loss_scale = outcome.loss_scale;
  if (outcome.overflowed) ++state_.overflowed_steps;
  const bool is_bad = outcome.skipped && !outcome.overflowed;
  skipped_in_a_row_ = is_bad ? skipped_in_a_row_ + 1 : 0;
  if (!is_bad && std::isfinite(outcome.loss)) finite_step_ = outcome.step;
  if (is_bad) {
    ++state_.skipped_steps;
    parts_.observer->on_note(concat("step ", outcome.step + 1, " skipped: not finite in ", outcome.reason));
    if (skipped_in_a_row_ >= kMaxSkippedInARow) {
      throw Error(Status(ErrorCode::kNonfinite,
                         concat("[train] ", kMaxSkippedInARow,
                                " steps in a row were not finite, the last in ", outcome.reason)));
    }
  }
  if (parts_.directory == nullptr) return;
  Json line = Json::object(
      {{"step", outcome.step + 1}, {"epoch", outcome.epoch}, {"loss", outcome.loss}, {"lr", outcome.lr}});
  if (outcome.skipped) line.set("skipped", outcome.reason);
  throw_if_error(parts_.directory->log_line(line));
  std::vector<Scalar> scalars = {{"train/loss", outcome.loss}, {"train/lr", outcome.lr}};
  if (outcome.loss_scale > 0) scalars.push_back({"train/loss_scale", outcome.loss_scale});
  throw_if_error(parts_.directory->log_scalars(outcome.step + 1, scalars));
}

Trainer::Window Trainer::begin_window() const {
  Window window;
  window.begin = ledger_.so_far();
  window.device = step_->device_times().entry;
  return window;
}

void Trainer::MeanLoss::add(double loss) {
  if (!std::isfinite(loss)) return;
  sum += loss;
  ++steps;
}

double Trainer::MeanLoss::value() const {
  return steps > 0 ? sum / static_cast<double>(steps) : std::numeric_limits<double>::quiet_NaN();
}

void Trainer::tell_of_searches() {
  const auto measured = engine::kernel_table().measured();
  if (measured == nullptr || measured->searches() == searches_told_) return;
  searches_told_ = measured->searches();
  parts_.observer->on_note(concat("kernels: ", human_count(searches_told_), " chosen in ",
                                  human_seconds(static_cast<double>(measured->search_ns()) * 1e-9),
                                  ", which rates and eta leave out"));
}

void Trainer::report_progress(const StepOutcome& outcome) {
  const SpanScope span(Span::kLogging);
  window_.samples += outcome.samples;
  window_.loss.add(outcome.loss);
  epoch_loss_.add(outcome.loss);
  write_ledger_if_due();
  const LedgerEntry so_far = ledger_.so_far();
  LedgerEntry since = so_far;
  since -= window_.begin;
  const bool is_last = outcome.step + 1 == settings_.schedule.total_steps;
  if (since.training_ns() < parts_.observer->progress_interval_ns() && !outcome.epoch_ended && !is_last)
    return;

  tell_of_searches();
  ProgressReport report;
  report.step = outcome.step + 1;
  report.total_steps = settings_.schedule.total_steps;
  report.epoch = epoch();
  report.epochs = static_cast<double>(report.total_steps) / steps_per_epoch();
  report.loss = window_.loss.value();
  report.loss_steps = window_.loss.steps;
  report.lr = outcome.lr;
  report.samples_per_s =
      static_cast<double>(window_.samples) / (static_cast<double>(since.training_ns()) * 1e-9);
  DeviceTimes device = step_->device_times();
  device.entry -= window_.device;
  const bool has_device_times = device.entry.wall_ns > 0;
  report.data_wait_share =
      has_device_times ? device.wait_share() : share(data_ns(since), since.training_ns());
  // What comes once is no part of what is left.
  const int64_t repeated_ns =
      so_far.wall_ns - span_ns(so_far, Span::kStart) - span_ns(so_far, Span::kKernelSearch);
  const double seconds_a_step =
      static_cast<double>(repeated_ns) * 1e-9 / static_cast<double>(ledger_.steps() + 1);
  report.eta_seconds = seconds_a_step * static_cast<double>(report.total_steps - report.step);
  if (so_far.training_ns() >= kShortestJudged_ns) {
    report.limiting_stage =
        judge_speed(parts_.train->stats(), report.data_wait_share, report.samples_per_s).limit;
  }
  report.epoch_ended = outcome.epoch_ended;
  if (outcome.epoch_ended) {
    report.epoch_loss = std::exchange(epoch_loss_, {}).value();
  }
  parts_.observer->on_progress(report);
  if (parts_.directory != nullptr) {
    std::vector<Scalar> scalars = {{"time/samples_per_s", report.samples_per_s},
                                   {"time/data_wait", report.data_wait_share}};
    if (has_device_times) {
      for (const LedgerRow& row : report_ledger(device.entry).rows)
        scalars.push_back({"device/" + row.name, row.share});
    }
    throw_if_error(parts_.directory->log_scalars(outcome.step + 1, scalars));
  }
  window_ = begin_window();
}

}  // namespace dlpipe::run
