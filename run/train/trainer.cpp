// The work of the training loop around a step: it logs, reports, validates, saves, and explains after an error how to continue.
// The loop itself is in session.cpp.
#include "run/train/trainer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/counters.h"
#include "base/messages.h"
#include "base/text.h"
#include "dlpipe/log.h"
#include "engine/core/kernel_table.h"
#include "engine/core/measured_kernels.h"
#include "io/formats/atomic_file.h"
#include "run/record/checkpoint.h"
#include "run/record/kernels.h"
#include "run/record/report.h"
#include "run/train/outcome.h"
#include "run/train/session/agreement.h"

namespace dlpipe::run {

namespace {

using engine::NamedTensor;
using formats::Json;
using formats::Scalar;

constexpr int64_t kMaxSkippedInARow = 100;

int64_t span_ns(const LedgerEntry& entry, Span span) {
  return entry.span_ns[static_cast<size_t>(span)];
}

// Uses another ledger for the thread within its scope, because the spans of validation's batches do not belong to training. The
// time of kernel searches goes into their own row of the former ledger.
class AsideLedger {
 public:
  explicit AsideLedger(Ledger& former) : former_(former) {
    aside_.make_current();
    aside_.begin_part();
  }
  ~AsideLedger() {
    former_.make_current();
    const int64_t search_ns = span_ns(aside_.end_part(), Span::kKernelSearch);
    former_.reassign(Span::kValidation, Span::kKernelSearch, search_ns);
  }
  AsideLedger(const AsideLedger&) = delete;
  AsideLedger& operator=(const AsideLedger&) = delete;

 private:
  Ledger& former_;
  Ledger aside_;
};

// Puts averaged weights into the model for its scope; does nothing without an average.
class EmaWeights {
 public:
  EmaWeights(engine::Module& model, const engine::Ema* ema) : model_(model) {
    if (ema == nullptr) return;
    for (const NamedTensor& named : model.state_dict()) own_.push_back({named.name, named.tensor.clone()});
    model_.load_state_dict(ema->state());
  }
  ~EmaWeights() {
    if (own_.empty()) return;
    try {
      model_.load_state_dict(own_);
    } catch (const Error& error) {  // the device has failed: another exception is already in flight
      log(LogLevel::kError, error.what());
    }
  }
  EmaWeights(const EmaWeights&) = delete;
  EmaWeights& operator=(const EmaWeights&) = delete;

 private:
  engine::Module& model_;
  std::vector<NamedTensor> own_;
};

}  // namespace

Trainer::Trainer(const TrainerParts& parts, const TrainerSettings& settings, const TrainerState& state)
    : parts_(parts),
      settings_(settings),
      state_(state),
      step_(TrainStep::create(*parts.model, *parts.optimizer, parts.ema, settings.step)),
      agreement_(parts.ranks, *parts.train),
      epoch_loss_{state.epoch_loss_sum, state.epoch_loss_steps} {
  static TrainObserver silent;
  static const SplitWeights whole;
  if (parts_.observer == nullptr) parts_.observer = &silent;
  if (parts_.weights == nullptr) parts_.weights = &whole;
  outcome_.first_step = state.step;
  if (parts_.val != nullptr) val_begin_ = parts_.val->state();
  if (step_->scaler() != nullptr && state_.loss_scale > 0)
    step_->scaler()->set_state(
        {static_cast<float>(state_.loss_scale), static_cast<int32_t>(state_.good_steps)});
}

double Trainer::steps_per_epoch() const {
  return static_cast<double>(parts_.train->batches_per_epoch()) /
         static_cast<double>(settings_.step.accumulate);
}

// --- after a step: the log, progress, ledger.json of the run so far

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
                                  ", which rates and eta do not include"));
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
  report.data_wait_share = has_device_times ? device.wait_share() : host_wait_share(since);
  // One-time work is not part of the remaining time.
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

// --- the chain, validation, the checkpoint

uint64_t Trainer::chain_of_weights(uint64_t before) const {
  return hash_tensors(parts_.weights->whole(parts_.model->state_dict()), before);
}

void Trainer::chain_parameters() {
  if (state_.chained_step == state_.step) return;
  const SpanScope span(Span::kMetrics);
  state_.parameters_chain = chain_of_weights(state_.parameters_chain);
  state_.chained_step = state_.step;
  if (parts_.directory == nullptr) return;
  throw_if_error(parts_.directory->log_line(
      Json::object({{"step", state_.step}, {"parameters_chain", hex64(state_.parameters_chain)}})));
}

bool is_multiple_reached(int64_t step, double steps) {
  constexpr double kRounding = 1e-9;  // 0.1 of 70 steps are 7.000000000000001
  const auto reached = [&](int64_t at) { return std::floor(static_cast<double>(at) / steps + kRounding); };
  return reached(step) > reached(step - 1);
}

bool Trainer::is_due(const Interval& interval, int64_t last_ns) const {
  const auto step = static_cast<double>(state_.step);
  switch (interval.unit) {
    case Interval::Unit::kNever:
      return false;
    case Interval::Unit::kSteps:
      return std::fmod(step, interval.amount) == 0;
    case Interval::Unit::kEpochs:
      return is_multiple_reached(state_.step, interval.amount * steps_per_epoch());
    case Interval::Unit::kSeconds:
      return static_cast<double>(agreement_.time_ns() - last_ns) * 1e-9 >= interval.amount;
  }
  return false;
}

void Trainer::validate_if_due(bool at_end) {
  if (parts_.val == nullptr || settings_.val_every.unit == Interval::Unit::kNever) return;
  if (state_.validated_step == state_.step) return;
  const bool due = is_due(settings_.val_every, last_validation_ns_);
  if (at_end || due) validate(due);
}

void Trainer::validate(bool counts) {
  take_outcomes(true);
  EvalReport result;
  {
    const SpanScope span(Span::kValidation);
    const AsideLedger aside(ledger_);
    const EmaWeights weights(*parts_.model, parts_.ema);
    throw_if_error(parts_.val->seek(val_begin_));
    try {
      result = evaluate(*parts_.model, *parts_.val, settings_.eval);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kCancelled) throw;
      agreement_.note_stop();
      return;  // is repeated after --resume: validated_step is earlier
    }
  }
  restarts_validation_clock_ = true;
  state_.validated_step = state_.step;
  judge(result, counts);
}

void Trainer::judge(const EvalReport& result, bool counts) {
  const engine::MetricRecord* first =
      settings_.eval.metrics.empty() ? nullptr : settings_.eval.metrics.front();
  const double value = result.value(first != nullptr ? first->name : engine::kLossMetric);
  const bool lower_is_better = first == nullptr || first->lower_is_better;
  const bool is_best =
      std::isfinite(value) && std::isfinite(result.loss) &&
      (state_.best_step < 0 || (lower_is_better ? value < state_.best : value > state_.best));
  if (is_best) {
    state_.best = value;
    state_.best_step = state_.step;
  }
  if (is_best) state_.worse_validations = 0;
  if (!is_best && counts) ++state_.worse_validations;
  outcome_.last_validation = ValidationReport{state_.step, epoch(), result, is_best};
  if (settings_.early_stop > 0 && state_.worse_validations >= settings_.early_stop) {
    ended_ = outcome_.early_stopped = true;
  }
  {
    const SpanScope span(Span::kLogging);
    parts_.observer->on_validation(*outcome_.last_validation);
    if (parts_.directory != nullptr) {
      Json line =
          Json::object({{"step", state_.step}, {"val_loss", result.loss}, {"val_samples", result.samples}});
      std::vector<Scalar> scalars = {{"val/loss", result.loss}};
      for (const auto& [name, metric] : result.metrics) {
        line.set("val_" + name, metric);
        if (name != engine::kLossMetric && std::isfinite(metric)) scalars.push_back({"val/" + name, metric});
      }
      throw_if_error(parts_.directory->log_line(line));
      throw_if_error(parts_.directory->log_scalars(state_.step, scalars));
    }
  }
  refuse_nonfinite(result);
  if (is_best) save();
}

void Trainer::refuse_nonfinite(const EvalReport& result) {
  if (std::isfinite(result.loss)) {
    finite_step_ = state_.step;
    return;
  }
  if (result.samples == 0) return;  // there is no mean without samples
  const std::string what = concat("validation after step ", state_.step, ": the loss is not finite");
  if (!settings_.step.skip_nonfinite) throw Error(Status(ErrorCode::kNonfinite, concat("[train] ", what)));
  parts_.observer->on_warning(concat(what, "; it is never the best one"));
}

CheckpointTensors Trainer::checkpoint_tensors() const {
  CheckpointTensors tensors{parts_.weights->whole(parts_.model->state_dict()), {}, {}};
  if (!settings_.step.shares()) tensors.optimizer = parts_.weights->whole(parts_.optimizer->state());
  if (parts_.ema != nullptr) tensors.ema = parts_.weights->whole(parts_.ema->state());
  return tensors;
}

void Trainer::save() {
  take_outcomes(true);
  const SourceState source = agreement_.whole_state();
  saved_step_ = state_.step;
  restarts_checkpoint_clock_ = true;
  const SpanScope span(Span::kCheckpoint);
  OptimizerWriter write_optimizer;
  if (settings_.step.shares() && settings_.writes) {
    write_optimizer = [this](const Result<std::string>& directory) {
      return write_optimizer_parts(*parts_.ranks.all, directory, parts_.optimizer->state());
    };
  }
  // One replica assembles its ranks' parts of the weights; its first rank writes.
  const bool has_tensors = settings_.writes && parts_.ranks.data_rank() == 0;
  const CheckpointTensors tensors = has_tensors ? checkpoint_tensors() : CheckpointTensors{};
  if (parts_.directory == nullptr) {
    if (write_optimizer) throw_if_error(write_optimizer(std::string()).status());
    return;
  }
  const RunDirectory::LogSizes sizes = value_or_throw(parts_.directory->sync_logs());
  state_.metrics_bytes = sizes.metrics_bytes;
  state_.quarantine_bytes = sizes.quarantine_bytes;
  state_.epoch_loss_sum = epoch_loss_.sum;
  state_.epoch_loss_steps = epoch_loss_.steps;
  const engine::GradScaler::State scaler =
      step_->scaler() != nullptr ? step_->scaler()->state() : engine::GradScaler::State{0, 0};
  state_.loss_scale = scaler.scale;
  state_.good_steps = scaler.good_steps;
  throw_if_error(save_kernels(parts_.directory->kernels_file()));
  const std::string directory =
      value_or_throw(save_checkpoint(parts_.directory->checkpoints(), {settings_.model_state, state_, source},
                                     tensors, settings_.keep, write_optimizer));
  parts_.observer->on_checkpoint(directory, state_.best_step == state_.step);
}

// --- the end: sizes by process, and what an error advises

void Trainer::note_shares() {
  int64_t state_bytes = 0;
  for (const NamedTensor& state : parts_.optimizer->state())
    state_bytes += static_cast<int64_t>(state.tensor.size_bytes());
  outcome_.optimizer_bytes = of_all_processes(state_bytes, "the sizes of the optimizer's parts");
  outcome_.gradient_bytes =
      of_all_processes(static_cast<int64_t>(step_->gradient_bytes()), "the sizes of the gradients' parts");
}

std::vector<int64_t> Trainer::of_all_processes(int64_t mine, const char* what) const {
  std::vector<int64_t> all;
  for (const std::string& text : value_or_throw(parts_.ranks.all->gather(std::to_string(mine), what))) {
    all.emplace_back(0);
    parse_int(text, &all.back());
  }
  return all;
}

std::string Trainer::nonfinite_advice() const {
  std::string advice = settings_.step.skip_nonfinite ? "; try a lower --lr or --clip 1"
                                                     : "; try a lower --lr, --clip 1, or --on-nonfinite skip";
  if (step_->scaler() != nullptr) advice = "; the largest f16 number is 65504: try --dtype bf16" + advice;
  return advice;
}

std::string Trainer::last_checkpoint_advice() const {
  if (parts_.directory == nullptr) return "";
  const Result<std::vector<std::string>> saved = list_checkpoints(parts_.directory->checkpoints());
  if (!saved.ok()) return concat("; its checkpoints: ", saved.status().message());
  if (saved->empty()) return "; no checkpoint was saved yet";
  const auto good = std::ranges::find_if(
      *saved, [&](const std::string& directory) { return checkpoint_step(directory) <= finite_step_; });
  std::string advice;
  if (good != saved->begin())
    advice = concat("; the last checkpoint is ", saved->front(), ", and its weights may have diverged");
  if (good != saved->end()) advice += concat("; the last good checkpoint is ", *good);
  return advice;
}

std::string Trainer::resume_advice() const {
  if (parts_.directory == nullptr) return "";
  const Result<std::vector<std::string>> saved = list_checkpoints(parts_.directory->checkpoints());
  if (!saved.ok() || saved->empty()) return "";
  return concat("; resume it with: `dlpipe train --resume ", shell_word(parts_.directory->path()), "`");
}

}  // namespace dlpipe::run
