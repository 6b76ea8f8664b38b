#include "run/train/step/train_step.h"

#include <utility>
#include <vector>

#include "base/counters.h"
#include "base/text.h"
#include "dlpipe/op.h"
#include "dlpipe/ops.h"
#include "engine/core/device_memory.h"
#include "engine/layers/staged.h"
#include "engine/ops/batch_norm.h"
#include "run/train/gradients/gradient_norm.h"

namespace dlpipe::run {

using engine::NamedTensor;
using engine::Tensor;

GradientSum::Form TrainStepOptions::gradient_form() const {
  return {.grains = own_grains(),
          .batches = accumulate,
          .ranks = ranks,
          .bucket_bytes = bucket_bytes,
          .wire = wire,
          .shares = shares(),
          .device_sums = device_sums,
          .peer_timeout_s = peer_timeout_s};
}

std::unique_ptr<TrainStep> TrainStep::create(engine::Module& model, engine::Optimizer& optimizer,
                                             engine::Ema* ema, const TrainStepOptions& options) {
  return model.device().is_host() ? on_host(model, optimizer, ema, options)
                                  : on_device(model, optimizer, ema, options);
}

static StepOutcome outcome_of(int64_t step, double lr) {
  StepOutcome outcome;
  outcome.step = step;
  outcome.lr = lr;
  return outcome;
}

const StepOutcome* TrainStep::run(BatchSource& source, int64_t step, double lr) {
  StepOutcome outcome = outcome_of(step, lr);
  begin(step, lr);
  for (int64_t micro = 0; micro < accumulate_; ++micro) {
    std::optional<Batch> batch = value_or_throw(source.next());  // writes its own spans
    if (!batch) return nullptr;
    BatchInput input;
    {
      const SpanScope span(Span::kForward);
      input = arrive(*batch);
      outcome.samples += batch->count;
      outcome.epoch = batch->epoch;
      outcome.epoch_ended |= batch->last_in_epoch;
      for (const Substitution& bad : batch->substitutions) outcome.bad.push_back({batch->epoch, bad});
      throw_if_error(source.release(*batch, stream()));
    }
    take(std::move(input), micro, outcome);
  }
  return finish(std::move(outcome));
}

const StepOutcome* TrainStep::run(const BatchInput& input, int64_t step, double lr) {
  StepOutcome outcome = outcome_of(step, lr);
  begin(step, lr);
  for (int64_t micro = 0; micro < accumulate_; ++micro) {
    outcome.samples += input.target.size(0) / (input.is_mixed ? 2 : 1);
    take(input, micro, outcome);
  }
  return finish(std::move(outcome));
}

void fail_nonfinite(int64_t step, const std::string& reason) {
  throw Error(Status(ErrorCode::kNonfinite, concat("[train] step ", step + 1,
                                                   ": a number is not finite; the first is in ", reason)));
}

BatchPass::BatchPass(engine::Module& model, const TrainStepOptions& options, Tensor random_key)
    : model_(model),
      options_(options),
      random_key_(std::move(random_key)),
      parameters_(model.parameters()),
      buffers_(model.buffers()) {}

void BatchPass::begin_step() {
  model_.zero_grad();
  if (options_.skip_nonfinite) save_buffers();
}

// Batch norms update their statistics before it is known whether the batch counts.
void BatchPass::save_buffers() {
  if (saved_buffers_.size() != buffers_.size()) {
    for (const NamedTensor& buffer : buffers_) saved_buffers_.push_back(buffer.tensor.clone());
    return;
  }
  for (size_t i = 0; i < buffers_.size(); ++i) {
    const Tensor& now = buffers_[i].tensor;
    engine::copy_memory(saved_buffers_[i].device(), saved_buffers_[i].raw(), now.device(), now.raw(),
                        now.size_bytes());
  }
}

void BatchPass::seed_host(int64_t step, int64_t part) const {
  engine::random_state() = {options_.seed, step * options_.parts() + part, 0, random_key_};
}

void BatchPass::seed(int64_t step, int64_t part) const {
  seed_host(step, part);
  if (random_key_.defined()) engine::write_random_key(engine::random_state());
}

// Does not write the device's random key: a graph would repeat the key of the captured step.
Tensor BatchPass::loss(const BatchInput& input, int64_t step, int64_t part) {
  seed_host(step, part);
  Tensor y = model_(input.pixels);
  if (const engine::StageLine* line = model_.stage_line(); line != nullptr && !line->is_last()) return y;
  return options_.loss->compute(input.rows(y), input.target, input.weight, options_.loss_arguments);
}

Tensor BatchPass::no_loss(const BatchInput& input, int64_t step, int64_t part) {
  seed_host(step, part);
  return engine::scale(engine::sum(model_(input.pixels)), 0.0);
}

Tensor BatchPass::share(const Tensor& loss) const {
  if (options_.parts() == 1) return loss;
  return engine::scale(loss, 1.0 / static_cast<double>(options_.parts()));
}

std::string BatchPass::find_layer(const BatchInput& input, int64_t step, int64_t part) {
  if (model_.stage_line() != nullptr)
    return "the loss itself";  // the other stages are at other grains of the batch
  const engine::UseAutocast autocast(options_.dtype);
  const engine::UseStatisticsPeers alone(nullptr);
  seed(step, part);
  std::string layer = first_word(first_nonfinite_input(model_, input.pixels));
  if (layer.empty()) layer = first_word(first_nonfinite_output(model_, input.pixels));
  return layer.empty() ? "the loss itself" : layer;
}

// Ranks have different parts of the weights and may find errors in different ones. But all of them must run through the model, or
// none.
std::string BatchPass::first_word(std::string mine) const {
  if (options_.tensor_ranks == nullptr) return mine;
  for (std::string& word :
       value_or_throw(options_.tensor_ranks->gather(mine, "where a number is not finite"))) {
    if (!word.empty()) return std::move(word);
  }
  return "";
}

}  // namespace dlpipe::run
