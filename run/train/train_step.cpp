#include "dlpipe/run/train/train_step.h"

#include <cmath>
#include <cstring>

#include "dlpipe/base/ledger.h"
#include "dlpipe/base/log.h"
#include "dlpipe/base/text.h"
#include "dlpipe/engine/core/device_code.h"
#include "dlpipe/engine/core/device_memory.h"
#include "dlpipe/engine/core/op.h"
#include "dlpipe/engine/ops/ops.h"
#include "dlpipe/run/train/nonfinite.h"

namespace dlpipe::run {

using engine::NamedTensor;
using engine::Tensor;

namespace {

[[noreturn]] void fail_nonfinite(int64_t step, const std::string& reason) {
  throw Error(Status(ErrorCode::kNonfinite,
                     concat("[train] step ", step, ": a number is not finite; the first is in ", reason)));
}

}  // namespace

Result<TrainStepOptions::Graph> parse_graph(std::string_view name) {
  const std::vector<std::string> names = {"auto", "on", "off"};
  for (size_t i = 0; i < names.size(); ++i) {
    if (name == names[i]) return static_cast<TrainStepOptions::Graph>(i);
  }
  return Status(ErrorCode::kMisuse, concat("[train] --graph ", name, suggestion(std::string(name), names)));
}

TrainStep::TrainStep(engine::Module& model, engine::Optimizer& optimizer, engine::Ema* ema,
                     const TrainStepOptions& options)
    : model_(model),
      optimizer_(optimizer),
      ema_(ema),
      options_(options),
      device_(model.device()),
      parameters_(model.parameters()),
      buffers_(model.buffers()),
      counters_(model) {
  if (device_.is_host()) {
    if (options_.graph == TrainStepOptions::Graph::kOn)  // perhaps a device's run that goes on here
      log(LogLevel::kWarning,
          concat("--graph on changes nothing on ", device_.name(), ": it goes with --device cuda"));
    return;
  }
  std::string reason;
  if (options_.graph == TrainStepOptions::Graph::kOff) reason = "--graph off";
  random_key_ = Tensor::empty({{1}, DType::kI64, engine::Layout::kPlain}, device_);
  results_ = std::make_unique<StepResults>(device_);
  if (options_.dtype == DType::kF16) scaler_ = std::make_unique<engine::GradScaler>(device_);
  graph_ = std::make_unique<StepGraph>(device_, model_, results_->ledger(), options_.accumulate, reason);
}

const StepOutcome* TrainStep::run(BatchSource& source, int64_t step, double lr) {
  StepOutcome outcome = begin(step, lr);
  for (int64_t micro = 0; micro < options_.accumulate; ++micro) {
    std::optional<Batch> batch = value_or_throw(source.next());  // writes its own spans
    if (!batch) return nullptr;
    BatchInput input;
    {
      const SpanScope span(Span::kForward);
      input = arrive(*batch);
      outcome.samples += batch->count;
      outcome.epoch = batch->epoch;
      outcome.epoch_ended |= batch->last_in_epoch;
      throw_if_error(source.release(*batch, device_.is_host() ? nullptr : &engine::engine_stream(device_)));
    }
    take(std::move(input), micro, outcome);
  }
  return finish(std::move(outcome));
}

const StepOutcome* TrainStep::run(const BatchInput& input, int64_t step, double lr) {
  StepOutcome outcome = begin(step, lr);
  for (int64_t micro = 0; micro < options_.accumulate; ++micro) {
    outcome.samples += input.labels.size(0) / (input.is_mixed ? 2 : 1);
    take(input, micro, outcome);
  }
  return finish(std::move(outcome));
}

StepOutcome TrainStep::begin(int64_t step, double lr) {
  StepOutcome outcome;
  outcome.step = step;
  outcome.lr = lr;
  counts_before_ = counters_.values();
  if (device_.is_host()) return outcome;
  results_->ledger().begin_step();
  optimizer_.set_rate_on_device(lr);
  return outcome;
}

void TrainStep::mark(Span span) {
  if (results_ != nullptr) results_->ledger().mark(span);
}

// A batch that comes from the host's memory is copied within its preparation.
BatchInput TrainStep::arrive(const Batch& batch) {
  if (device_.is_host()) return batch_input(batch, device_);
  if (batch.copy_event != nullptr)
    throw_if_error(device_.wait(engine::engine_stream(device_), *batch.copy_event));
  mark(Span::kDataIdle);
  wait_for_batch(batch, device_);
  if (batch.ready_event != nullptr) mark(Span::kHostToDevice);
  BatchInput input = arrived_batch_input(batch, device_);
  if (batch.ready_event == nullptr) mark(Span::kHostToDevice);
  return input;
}

// On a device each batch of a step is one piece of work, so that it can be captured.
void TrainStep::take(BatchInput input, int64_t micro, StepOutcome& outcome) {
  if (device_.is_host()) {
    if (micro == 0) clear_gradients();
    return accumulate_gradients(std::move(input), micro, outcome);
  }
  const SpanScope span(Span::kForward);
  seed_dropout(outcome.step, micro);
  engine::write_random_key(engine::random_state());
  graph_->run(input, micro, loss_, [&](const BatchInput& prepared) {
    if (micro == 0) clear_gradients();
    accumulate_gradients(prepared, micro, outcome);
    if (micro + 1 == options_.accumulate) update_on_device();
  });
  if (options_.graph == TrainStepOptions::Graph::kOn && !graph_->reason().empty())
    throw Error(Status(ErrorCode::kUnsupported, concat("[train] --graph on: ", graph_->reason())));
  last_input_ = std::move(input);
}

void TrainStep::clear_gradients() {
  model_.zero_grad();
  loss_ = Tensor();
  if (options_.skip_nonfinite) save_buffers();
}

// Batch norms see the batch before anybody knows whether it counts. Always at the same addresses, which a
// captured step knows.
void TrainStep::save_buffers() {
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

void TrainStep::seed_dropout(int64_t step, int64_t micro) const {
  engine::random_state() = {options_.seed, step * options_.accumulate + micro, 0, random_key_};
}

std::string TrainStep::find_layer(const BatchInput& input, int64_t step, int64_t micro) {
  const engine::UseAutocast autocast(options_.dtype);
  seed_dropout(step, micro);
  if (random_key_.defined()) engine::write_random_key(engine::random_state());
  const std::string layer = first_nonfinite_layer(model_, input.pixels);
  return layer.empty() ? "the loss itself" : layer;
}

void TrainStep::accumulate_gradients(BatchInput input, int64_t micro, StepOutcome& outcome) {
  if (input.total_weight == 0) return;  // a batch of nothing but dropped rows has no gradient
  const engine::UseTf32 tf32(options_.tf32);
  Tensor loss;
  {
    const SpanScope span(Span::kForward);
    seed_dropout(outcome.step, micro);
    const engine::UseAutocast autocast(options_.dtype);
    const Tensor logits = input.rows(model_(input.pixels));
    loss = options_.loss->compute(logits, input.labels, input.weight, options_.loss_arguments);
    if (device_.is_host()) {
      const double value = loss.item();
      outcome.loss += value / static_cast<double>(options_.accumulate);
      if (!std::isfinite(value) && outcome.reason.empty())
        outcome.reason = find_layer(input, outcome.step, micro);
    }
    if (options_.accumulate > 1) loss = engine::scale(loss, 1.0 / static_cast<double>(options_.accumulate));
    if (!device_.is_host()) {
      const engine::NoGrad no_grad;
      loss_ = loss_.defined() ? engine::add(loss_, loss.detach()) : loss.detach();
    }
    mark(Span::kForward);
  }
  const SpanScope span(Span::kBackward);
  if (outcome.reason.empty()) loss.backward(scaler_ != nullptr ? scaler_->seed(loss.shape()) : Tensor());
  mark(Span::kBackward);
  loss = Tensor();  // the graph and the input go here, inside the span
  input = BatchInput();
}

const StepOutcome* TrainStep::finish(StepOutcome outcome) {
  const SpanScope span(Span::kOptimizer);
  if (device_.is_host()) {
    update_on_host(outcome);
  } else {
    if (ema_ != nullptr) ema_->copy_counts(model_);
    results_->push(loss_, flags_);
  }
  issued_.push_back({std::move(outcome), std::move(last_input_), counters_.since(counts_before_)});
  last_input_ = BatchInput();
  return &issued_.back().outcome;
}

void TrainStep::update_on_host(StepOutcome& outcome) {
  if (outcome.reason.empty()) outcome.reason = first_nonfinite_gradient(parameters_);
  if (outcome.reason.empty()) {
    if (options_.clip > 0) engine::clip_grad_norm(parameters_, options_.clip);
    optimizer_.step(outcome.lr);
    if (ema_ != nullptr) ema_->update(model_);
    return;
  }
  if (!options_.skip_nonfinite) fail_nonfinite(outcome.step, outcome.reason);
  outcome.skipped = true;
  model_.zero_grad();
  for (size_t i = 0; i < buffers_.size(); ++i) {  // batch norms have seen the bad batch; they forget it
    std::memcpy(buffers_[i].tensor.raw(), saved_buffers_[i].raw(), saved_buffers_[i].size_bytes());
    buffers_[i].tensor.bump_version();
  }
}

void TrainStep::update_on_device() {
  const SpanScope span(Span::kOptimizer);
  engine::DeviceStep step;
  if (options_.clip > 0) step.max_norm = options_.clip;
  step.loss = loss_;
  step.halts = !options_.skip_nonfinite;
  step.scaler = scaler_.get();
  flags_ = optimizer_.step_on_device(step);
  if (ema_ != nullptr) ema_->update(model_, flags_.found_inf);
  for (size_t i = 0; i < buffers_.size() && options_.skip_nonfinite; ++i) {
    Tensor& buffer = buffers_[i].tensor;
    if (buffer.device().is_host()) continue;
    engine::device_code(device_).steps->restore(buffer.data<float>(), saved_buffers_[i].data<float>(),
                                                buffer.elements(), flags_.found_inf);
    buffer.bump_version();
  }
}

std::optional<StepOutcome> TrainStep::take_outcome(bool wait) {
  if (issued_.empty()) return std::nullopt;
  if (results_ != nullptr) {
    if (!wait && !results_->is_full() && !results_->is_ready()) return std::nullopt;
    const SpanScope span(Span::kOptimizer);
    complete(issued_.front(), results_->pop());
    if (wait && results_->pending() == 0) results_->ledger().interrupt();
  }
  StepOutcome outcome = std::move(issued_.front().outcome);
  issued_.pop_front();
  return outcome;
}

void TrainStep::complete(Issued& issued, const StepResults::Result& result) {
  StepOutcome& outcome = issued.outcome;
  outcome.loss = result.loss;
  outcome.loss_scale = result.loss_scale;
  if (result.found_inf == engine::cuda::kAllFinite) return;
  outcome.overflowed = result.found_inf == engine::cuda::kOverflow;
  // Nothing has changed since: the step and all after it were halted.
  if (!options_.skip_nonfinite && !outcome.overflowed)
    fail_nonfinite(outcome.step, std::isfinite(result.loss)
                                     ? "the gradients; the loss is finite"
                                     : find_layer(issued.input, outcome.step, options_.accumulate - 1));
  outcome.skipped = true;
  outcome.reason = outcome.overflowed ? "gradients times the loss scale" : "the loss or its gradients";
  if (!options_.skip_nonfinite) return;  // the loss was finite: batch norms keep what they saw, as PyTorch's
  counters_.take_back(issued.counted);
  if (ema_ != nullptr) ema_->copy_counts(model_);
}

}  // namespace dlpipe::run
