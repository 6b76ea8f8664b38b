// The step of a model on the host: when the call returns, the step is finished and its outcome can be taken.

#include <cmath>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>

#include "base/counters.h"
#include "base/text.h"
#include "dlpipe/log.h"
#include "dlpipe/op.h"
#include "engine/core/constant_cache.h"
#include "engine/layers/staged.h"
#include "run/train/gradients/gradient_norm.h"
#include "run/train/gradients/gradient_sum.h"
#include "run/train/step/grains.h"
#include "run/train/step/train_step.h"
#include "run/use/loaded_model.h"

namespace dlpipe::run {

namespace {

using engine::Tensor;

class HostTrainStep final : public TrainStep {
 public:
  HostTrainStep(engine::Module& model, engine::Optimizer& optimizer, engine::Ema* ema,
                const TrainStepOptions& options);

  std::optional<StepOutcome> take_outcome(bool wait) override;
  size_t gradient_bytes() const override { return gradient_bytes_; }
  size_t packed_bytes() const override { return packed_bytes_; }

 private:
  void begin(int64_t, double) override {}
  BatchInput arrive(const Batch& batch) override;
  Stream* stream() override { return nullptr; }
  void take(BatchInput input, int64_t micro, StepOutcome& outcome) override;
  /// Runs a batch whose grains share batch norm's statistics.
  void take_together(BatchInput input, int64_t micro, const StepOutcome& outcome);
  /// Runs the grains of a batch one after another; in a stage of a pipeline, with a few forward passes in advance (1F1B).
  void take_in_turn(BatchInput input, int64_t micro, const StepOutcome& outcome);
  /// A grain between its forward and its backward.
  struct Passing {
    BatchInput input;
    engine::Tensor loss;  // undefined: it has none
  };
  Passing go_forward(BatchInput input, int64_t micro, int64_t grain, const StepOutcome& outcome);
  void go_back(Passing passing, int64_t micro, int64_t grain);
  engine::Tensor loss_of(const BatchInput& input, int64_t micro, int64_t grain, int64_t step);
  void walk_back(const engine::Tensor& loss, bool counts);
  /// Whether a grain runs backward after its forward. With shared statistics, either all grains do or none.
  bool walks_back(bool is_good);
  /// The cache of packed weights for the ops of the step's parts; null: nothing is cached.
  engine::ConstantCache* packed() { return packed_ ? &*packed_ : nullptr; }
  const StepOutcome* finish(StepOutcome outcome) override;
  void update(double lr);
  void update_shares(double lr);
  /// Applies the options for a step that is not finite.
  void refuse(StepOutcome& outcome);

  engine::Module& model_;
  engine::Optimizer& optimizer_;
  engine::Ema* ema_;
  const TrainStepOptions options_;
  engine::StageLine* const line_;  // null: this rank has all layers
  BatchPass pass_;
  GradientSum gradients_;
  StatisticsMean statistics_;
  StepSummary summary_;
  SplitGradients whole_gradients_;
  std::optional<SharedGradients> shared_;        // none: every rank has all gradients
  std::unique_ptr<GrainTurns> turns_;            // null: batch norm's statistics are per grain
  std::optional<engine::ConstantCache> packed_;  // from a step's first part to its update
  std::deque<StepOutcome> outcomes_;             // not taken yet
  size_t gradient_bytes_ = 0;
  size_t packed_bytes_ = 0;
};

HostTrainStep::HostTrainStep(engine::Module& model, engine::Optimizer& optimizer, engine::Ema* ema,
                             const TrainStepOptions& options)
    : TrainStep(options.accumulate),
      model_(model),
      optimizer_(optimizer),
      ema_(ema),
      options_(options),
      line_(model.stage_line()),
      pass_(model, options),
      gradients_(pass_.parameters(), options.gradient_form()),
      statistics_(pass_.buffers(), options.sync_bn ? 1 : options.own_grains(),
                  options.sync_bn ? nullptr : options.ranks),
      summary_(options.own_grains(), options.accumulate, options.ranks, options.stage_ranks),
      whole_gradients_(model, options.tensor_ranks, options.replica_ranks, options.clip > 0) {
  if (options_.shares())
    shared_.emplace(pass_.parameters(), GradientSum::shares(pass_.parameters(), options.gradient_form()),
                    *options.ranks);
  if (options_.sync_bn) {
    turns_ = std::make_unique<GrainTurns>(options.own_grains(), options.ranks);
    if (pass_.buffers().empty())
      log(LogLevel::kWarning, "--sync-bn has no effect: this model has no batch norm");
  }
  if (options_.graph == GraphUse::kOn)  // perhaps a GPU's run that is resumed on the host
    log(LogLevel::kWarning,
        concat("--graph on has no effect on ", model.device().name(), ": it needs --device cuda"));
}

BatchInput HostTrainStep::arrive(const Batch& batch) {
  return batch_input(batch, cpu_device(), options_.target);
}

void HostTrainStep::take(BatchInput input, int64_t micro, StepOutcome& outcome) {
  if (micro == 0) {
    pass_.begin_step();
    gradients_.begin_step(outcome.step);
    statistics_.begin_step(outcome.step);
    summary_.begin_step();
    if (options_.packs_once()) packed_ = weights_as_constants(pass_.parameters());
  }
  if (turns_ != nullptr) return take_together(std::move(input), micro, outcome);
  take_in_turn(std::move(input), micro, outcome);
}

void HostTrainStep::take_in_turn(BatchInput input, int64_t micro, const StepOutcome& outcome) {
  const int64_t grains = options_.own_grains();
  const int64_t ahead = line_ != nullptr ? line_->ahead(grains) : 0;
  if (line_ != nullptr) line_->begin(grains);
  std::deque<Passing> passing;
  for (int64_t turn = 0; turn < grains + ahead; ++turn) {
    if (turn < grains) {
      BatchInput part;
      {
        const SpanScope span(Span::kForward);
        part = input.part(turn, grains);
        if (turn + 1 == grains) input = BatchInput();
      }
      passing.push_back(go_forward(std::move(part), micro, turn, outcome));
    }
    if (turn < ahead) continue;
    go_back(std::move(passing.front()), micro, turn - ahead);
    passing.pop_front();
  }
}

void HostTrainStep::take_together(BatchInput input, int64_t micro, const StepOutcome& outcome) {
  const SpanScope span(Span::kForward);
  const int64_t grains = options_.own_grains();
  std::vector<BatchInput> parts;
  for (int64_t grain = 0; grain < grains; ++grain) parts.push_back(input.part(grain, grains));
  input = BatchInput();
  turns_->run(
      [&](int64_t grain) {
        go_back(go_forward(std::move(parts[static_cast<size_t>(grain)]), micro, grain, outcome), micro,
                grain);
      },
      [&](int64_t grain) { gradients_.resume(grain); },
      concat("batch norm's statistics of step ", outcome.step + 1));
}

HostTrainStep::Passing HostTrainStep::go_forward(BatchInput input, int64_t micro, int64_t grain,
                                                 const StepOutcome& outcome) {
  statistics_.begin(grain);
  Tensor loss = loss_of(input, micro, grain, outcome.step);
  // This comes before the next grain's forward, which in a stage of a pipeline precedes this grain's backward.
  statistics_.end(grain);
  return {std::move(input), std::move(loss)};
}

void HostTrainStep::go_back(Passing passing, int64_t micro, int64_t grain) {
  const SpanScope span(Span::kBackward);
  gradients_.begin(micro, grain);
  if (walks_back(passing.loss.defined() && summary_.is_finite()))
    walk_back(passing.loss, passing.input.total_weight != 0);
  passing = {};  // releases the graph and the input inside the span
  gradients_.end(grain);
}

void HostTrainStep::walk_back(const Tensor& loss, bool counts) {
  const engine::UseTf32 tf32(options_.tf32);
  const engine::UseConstantCache packed_once(packed());
  (counts ? pass_.share(loss) : loss).backward();
}

// A part with only dropped rows has no gradient. It still runs if grains share statistics, or if other stages wait for it.
Tensor HostTrainStep::loss_of(const BatchInput& input, int64_t micro, int64_t grain, int64_t step) {
  const bool counts = input.total_weight != 0;
  if (!counts && turns_ == nullptr && line_ == nullptr) return {};
  const SpanScope span(Span::kForward);
  const engine::UseTf32 tf32(options_.tf32);
  const engine::UseAutocast autocast(options_.dtype);
  const engine::UseConstantCache packed_once(packed());
  const int64_t part = micro * options_.grains + options_.first_grain() + grain;
  if (!counts) return pass_.no_loss(input, step, part);
  Tensor loss = pass_.loss(input, step, part);
  const double value = loss.item();
  const bool is_bad = !std::isfinite(value) && summary_.is_finite();
  summary_.add(micro, grain, value, is_bad ? pass_.find_layer(input, step, part) : "");
  return loss;
}

bool HostTrainStep::walks_back(bool is_good) {
  if (line_ != nullptr) return true;  // other stages do; the step is skipped at its end
  if (turns_ == nullptr) return is_good;
  float bad_grains = is_good ? 0.0f : 1.0f;
  turns_->sum(std::span(&bad_grains, 1));
  return bad_grains == 0.0f;
}

const StepOutcome* HostTrainStep::finish(StepOutcome outcome) {
  packed_bytes_ = packed_ ? packed_->size_bytes() : 0;
  packed_.reset();
  gradients_.finish();
  statistics_.finish();
  summary_.finish(outcome);
  const SpanScope span(Span::kOptimizer);
  whole_gradients_.add_up_ties(outcome.step);
  if (outcome.reason.empty())
    outcome.reason = shared_ ? shared_->first_nonfinite(outcome.step, gradients_.own())
                             : whole_gradients_.first_nonfinite(outcome.step);
  outcome.reason.empty() ? update(outcome.lr) : refuse(outcome);
  return &outcomes_.emplace_back(std::move(outcome));
}

void HostTrainStep::update(double lr) {
  if (shared_) {
    update_shares(lr);
  } else {
    if (options_.clip > 0) whole_gradients_.clip(options_.clip);
    optimizer_.step(lr);
  }
  if (ema_ != nullptr) ema_->update(model_);
}

void HostTrainStep::update_shares(double lr) {
  gradient_bytes_ = 0;
  for (const Tensor& own : gradients_.own()) gradient_bytes_ += own.defined() ? own.size_bytes() : 0;
  if (options_.clip > 0) shared_->clip(options_.clip, gradients_.own());
  optimizer_.step_shares(lr, gradients_.own());
  gradients_.share_weights();
}

void HostTrainStep::refuse(StepOutcome& outcome) {
  if (!options_.skip_nonfinite) fail_nonfinite(outcome.step, outcome.reason);
  outcome.skipped = true;
  model_.zero_grad();
  const std::vector<Tensor>& saved = pass_.saved_buffers();
  for (size_t i = 0; i < saved.size(); ++i) {  // resets batch norms to before the bad batch
    Tensor& buffer = pass_.buffers()[i].tensor;
    std::memcpy(buffer.raw(), saved[i].raw(), saved[i].size_bytes());
    buffer.bump_version();
  }
}

std::optional<StepOutcome> HostTrainStep::take_outcome(bool) {
  if (outcomes_.empty()) return std::nullopt;
  StepOutcome outcome = std::move(outcomes_.front());
  outcomes_.pop_front();
  return outcome;
}

}  // namespace

std::unique_ptr<TrainStep> TrainStep::on_host(engine::Module& model, engine::Optimizer& optimizer,
                                              engine::Ema* ema, const TrainStepOptions& options) {
  return std::make_unique<HostTrainStep>(model, optimizer, ema, options);
}

}  // namespace dlpipe::run
