#include "dlpipe/run/train/loop/trainer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "dlpipe/base/counter.h"
#include "dlpipe/base/log.h"
#include "dlpipe/base/shell_word.h"
#include "dlpipe/base/text.h"
#include "dlpipe/engine/core/kernel_table.h"
#include "dlpipe/engine/core/measured_kernels.h"
#include "dlpipe/io/formats/atomic_file.h"
#include "dlpipe/run/record/saved_kernels.h"
#include "dlpipe/run/record/stage_report.h"
#include "dlpipe/run/record/tensor_file.h"
#include "dlpipe/run/train/loop/checkpoint_parts.h"

namespace dlpipe::run {

namespace {

using engine::NamedTensor;
using formats::Json;
using formats::Scalar;

// Makes another ledger the thread's for its scope: spans of validation's batches are not training's.
// A search for kernels is in the former ledger's row of its own wherever it comes.
class AsideLedger {
 public:
  explicit AsideLedger(Ledger& former) : former_(former) {
    aside_.make_current();
    aside_.begin_part();
  }
  ~AsideLedger() {
    former_.make_current();
    const int64_t search_ns = aside_.end_part().span_ns[static_cast<size_t>(Span::kKernelSearch)];
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
    } catch (const Error& error) {  // of a device that has failed: another one of its is on the way
      log(LogLevel::kError, error.what());
    }
  }
  EmaWeights(const EmaWeights&) = delete;
  EmaWeights& operator=(const EmaWeights&) = delete;

 private:
  engine::Module& model_;
  std::vector<NamedTensor> own_;
};

/// Of this run so far.
int64_t kernel_search_ns() {
  const auto measured = engine::kernel_table().measured();
  return measured == nullptr ? 0 : measured->search_ns();
}

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
  if (parts_.val != nullptr) val_begin_ = parts_.val->state();
  if (step_->scaler() != nullptr && state_.loss_scale > 0)
    step_->scaler()->set_state(
        {static_cast<float>(state_.loss_scale), static_cast<int32_t>(state_.good_steps)});
}

double Trainer::steps_per_epoch() const {
  return static_cast<double>(parts_.train->batches_per_epoch()) /
         static_cast<double>(settings_.step.accumulate);
}

TrainOutcome Trainer::train(const std::atomic<bool>* stop) {
  stop_ = stop;
  settings_.eval.stop = stop;
  ledger_.make_current();
  begin_ns_ = now_ns();
  agreement_.ask(stop_, {}, "the beginning");
  last_validation_ns_ = last_checkpoint_ns_ = agreement_.time_ns();
  if (settings_.begin_ns > 0) {
    const int64_t search_ns = kernel_search_ns();  // for the memory plan
    ledger_.add(Span::kKernelSearch, search_ns);
    ledger_.add(Span::kStart, begin_ns_ - settings_.begin_ns - search_ns);
  }
  window_ = begin_window();
  parts_.model->train();
  ended_ = outcome_.early_stopped =
      settings_.early_stop > 0 && state_.worse_validations >= settings_.early_stop;
  try {
    if (state_.step > 0) {  // a signal may have come in the middle of it
      ledger_.begin_part();
      validate_if_due(false);
      ledger_.end_part();
    }
    run_steps();
    finish();
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kNonfinite)
      throw Error(Status(error.code(), concat(error.what(), nonfinite_advice(), last_checkpoint_advice())));
    if (error.code() == ErrorCode::kNoSpace)
      throw Error(Status(error.code(), concat(error.what(), last_checkpoint_advice(), resume_advice())));
    throw;
  }
  return outcome_;
}

void Trainer::run_steps() {
  while (state_.step < settings_.schedule.total_steps && !ended_ && !stop_requested()) one_step();
  ledger_.begin_part();
  take_outcomes(true);
  ledger_.end_part();
}

/// The hash of the weights as they are, behind that of the epochs before.
static uint64_t chain_of_weights(const TrainerParts& parts, uint64_t before) {
  return hash_tensors(parts.weights->whole(parts.model->state_dict()), before);
}

// What comes after the last step is in the ledger like all else.
void Trainer::finish() {
  ledger_.begin_part();
  uint64_t chain = state_.parameters_chain;
  if (!stop_requested()) {
    // Within an epoch a longer run chains nothing: the state, from which this one may go on, is left as it is.
    if (state_.chained_step != state_.step) {
      const SpanScope span(Span::kMetrics);
      chain = chain_of_weights(parts_, chain);
    }
    validate_if_due(true);
  }
  outcome_.stopped = stop_requested() && !ended_;
  if (saved_step_ != state_.step) save();
  ledger_.end_part();

  take_times();
  outcome_.seconds = static_cast<double>(now_ns() - begin_ns_) * 1e-9;
  outcome_.best = state_.best;
  outcome_.best_step = state_.best_step;
  outcome_.skipped_steps = state_.skipped_steps;
  outcome_.overflowed_steps = state_.overflowed_steps;
  outcome_.batches_chain = agreement_.whole_state().chain;
  outcome_.parameters_chain = chain;
  if (settings_.step.shares()) note_shares();
}

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
  if (step_->scaler() != nullptr) advice = "; f16 ends at 65504: try --dtype bf16" + advice;
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
  return concat("; go on from it with: `dlpipe train --resume ", shell_word(parts_.directory->path()), "`");
}

void Trainer::one_step() {
  ledger_.begin_step();
  const double lr = value_or_throw(engine::learning_rate(settings_.schedule, state_.step));
  const StepOutcome* const issued = step_->run(*parts_.train, state_.step, lr);
  if (issued == nullptr) {
    ended_ = true;
    ledger_.end_step();
    return;
  }
  const bool epoch_ended = issued->epoch_ended;
  agreement_.ask(stop_, issued->bad, concat("step ", state_.step + 1));
  // Ranks know the time of when they last asked: before the validation, whose own time doesn't count.
  if (std::exchange(restarts_validation_clock_, false)) last_validation_ns_ = agreement_.time_ns();
  if (std::exchange(restarts_checkpoint_clock_, false)) last_checkpoint_ns_ = agreement_.time_ns();
  if (const std::string reason = step_->graph_reason(); reason != graph_reason_) {
    graph_reason_ = reason;
    parts_.observer->on_note(concat("steps are launched kernel by kernel: ", reason));
  }
  if (const std::string reason = step_->replay_reason(); reason != replay_reason_) {
    replay_reason_ = reason;
    parts_.observer->on_warning(concat("--compile: steps run as they are: ", reason));
  }
  ++state_.step;
  take_outcomes(epoch_ended);
  if (epoch_ended) chain_parameters();
  validate_and_save();
  ledger_.end_step();
}

void Trainer::take_outcomes(bool all) {
  while (const std::optional<StepOutcome> outcome = step_->take_outcome(all)) {
    log_step(*outcome);
    parts_.observer->on_step(outcome->step + 1, outcome->loss);
    report_progress(*outcome);
  }
}

void Trainer::validate_and_save() {
  validate_if_due(false);
  if (saved_step_ != state_.step && is_due(settings_.checkpoint_every, last_checkpoint_ns_)) save();
}

void Trainer::chain_parameters() {
  if (state_.chained_step == state_.step) return;
  const SpanScope span(Span::kMetrics);
  state_.parameters_chain = chain_of_weights(parts_, state_.parameters_chain);
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
  step_->release_memory();  // the memory plan doesn't count it beside validation's
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
      return;  // comes again after --resume: validated_step is behind
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
        if (name != engine::kLossMetric) scalars.push_back({"val/" + name, metric});
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
  if (result.samples == 0) return;  // a mean of nothing
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
  // One replica puts its ranks' parts of the weights together; its first one writes.
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

}  // namespace dlpipe::run
