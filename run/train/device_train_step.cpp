#include "dlpipe/run/train/device_train_step.h"

#include <cmath>

#include "dlpipe/base/ledger.h"
#include "dlpipe/base/log.h"
#include "dlpipe/base/text.h"
#include "dlpipe/engine/core/device_code.h"
#include "dlpipe/engine/core/device_memory.h"
#include "dlpipe/engine/core/op.h"
#include "dlpipe/engine/ops/ops.h"

namespace dlpipe::run {

using engine::Tensor;

DeviceTrainStep::DeviceTrainStep(engine::Module& model, engine::Optimizer& optimizer, engine::Ema* ema,
                                 const TrainStepOptions& options)
    : TrainStep(options.accumulate),
      device_(model.device()),
      model_(model),
      optimizer_(optimizer),
      ema_(ema),
      options_(options),
      pass_(model, options, Tensor::empty({{1}, DType::kI64, engine::Layout::kPlain}, device_)),
      counters_(model),
      results_(device_) {
  if (options_.dtype == DType::kF16) scaler_ = std::make_unique<engine::GradScaler>(device_);
  graph_ = std::make_unique<StepGraph>(device_, model_, results_.ledger(), options_.accumulate,
                                       options_.graph == GraphUse::kOff ? "--graph off" : "");
  if (options_.compile)  // perhaps a run of the CPU that goes on here
    log(LogLevel::kWarning,
        concat("--compile changes nothing on ", device_.name(), ": --graph says how steps run there"));
}

void DeviceTrainStep::begin(int64_t, double lr) {
  counts_before_ = counters_.values();
  results_.ledger().begin_step();
  optimizer_.set_rate_on_device(lr);
}

Stream* DeviceTrainStep::stream() {
  return &engine::engine_stream(device_);
}

// A batch that comes from the host's memory is copied within its preparation.
BatchInput DeviceTrainStep::arrive(const Batch& batch) {
  if (batch.copy_event != nullptr) throw_if_error(device_.wait(*stream(), *batch.copy_event));
  mark(Span::kDataIdle);
  wait_for_batch(batch, device_);
  if (batch.ready_event != nullptr) mark(Span::kHostToDevice);
  BatchInput input = arrived_batch_input(batch, device_);
  if (batch.ready_event == nullptr) mark(Span::kHostToDevice);
  return input;
}

void DeviceTrainStep::take(BatchInput input, int64_t micro, StepOutcome& outcome) {
  const SpanScope span(Span::kForward);
  pass_.seed(outcome.step, micro);
  graph_->run(input, micro, loss_, [&](const BatchInput& prepared) {
    if (micro == 0) {
      loss_ = Tensor();
      pass_.begin_step();
    }
    accumulate_gradients(prepared, outcome.step, micro);
    if (micro + 1 == options_.accumulate) update();
  });
  if (options_.graph == GraphUse::kOn && !graph_->reason().empty())
    throw Error(Status(ErrorCode::kUnsupported,
                       concat("[train] --graph on: ", graph_->reason(), "; --graph auto goes without")));
  last_input_ = std::move(input);
}

void DeviceTrainStep::accumulate_gradients(BatchInput input, int64_t step, int64_t micro) {
  if (input.total_weight == 0) return;  // a batch of nothing but dropped rows has no gradient
  const engine::UseTf32 tf32(options_.tf32);
  Tensor loss;
  {
    const SpanScope span(Span::kForward);
    const engine::UseAutocast autocast(options_.dtype);
    loss = pass_.share(pass_.loss(input, step, micro));
    const engine::NoGrad no_grad;
    loss_ = loss_.defined() ? engine::add(loss_, loss.detach()) : loss.detach();
    mark(Span::kForward);
  }
  const SpanScope span(Span::kBackward);
  loss.backward(scaler_ != nullptr ? scaler_->seed(loss.shape()) : Tensor());
  mark(Span::kBackward);
  loss = Tensor();  // the graph and the input go here, inside the span
  input = BatchInput();
}

void DeviceTrainStep::update() {
  const SpanScope span(Span::kOptimizer);
  engine::DeviceStep step;
  if (options_.clip > 0) step.max_norm = options_.clip;
  step.loss = loss_;
  step.halts = !options_.skip_nonfinite;
  step.scaler = scaler_.get();
  flags_ = optimizer_.step_on_device(step);
  if (ema_ != nullptr) ema_->update(model_, flags_.found_inf);
  const std::vector<Tensor>& saved = pass_.saved_buffers();
  for (size_t i = 0; i < saved.size(); ++i) {
    Tensor& buffer = pass_.buffers()[i].tensor;
    if (buffer.device().is_host()) continue;
    engine::device_code(device_).steps->restore(buffer.data<float>(), saved[i].data<float>(),
                                                buffer.elements(), flags_.found_inf);
    buffer.bump_version();
  }
}

const StepOutcome* DeviceTrainStep::finish(StepOutcome outcome) {
  const SpanScope span(Span::kOptimizer);
  if (ema_ != nullptr) ema_->copy_counts(model_);
  results_.push(loss_, flags_);
  issued_.push_back({std::move(outcome), std::move(last_input_), counters_.since(counts_before_)});
  last_input_ = BatchInput();
  return &issued_.back().outcome;
}

std::optional<StepOutcome> DeviceTrainStep::take_outcome(bool wait) {
  if (issued_.empty()) return std::nullopt;
  if (!wait && !results_.is_full() && !results_.is_ready()) return std::nullopt;
  {
    const SpanScope span(Span::kOptimizer);
    complete(issued_.front(), results_.pop());
    if (wait && results_.pending() == 0) results_.ledger().interrupt();
  }
  StepOutcome outcome = std::move(issued_.front().outcome);
  issued_.pop_front();
  return outcome;
}

void DeviceTrainStep::complete(Issued& issued, const StepResults::Result& result) {
  StepOutcome& outcome = issued.outcome;
  outcome.loss = result.loss;
  outcome.loss_scale = result.loss_scale;
  if (result.found_inf == engine::cuda::kAllFinite) return;
  outcome.overflowed = result.found_inf == engine::cuda::kOverflow;
  // Nothing has changed since: the step and all after it were halted.
  if (!options_.skip_nonfinite && !outcome.overflowed)
    fail_nonfinite(outcome.step, std::isfinite(result.loss)
                                     ? "the gradients; the loss is finite"
                                     : pass_.find_layer(issued.input, outcome.step, options_.accumulate - 1));
  outcome.skipped = true;
  outcome.reason = outcome.overflowed ? "gradients times the loss scale" : "the loss or its gradients";
  if (!options_.skip_nonfinite) return;  // the loss was finite: batch norms keep what they saw, as PyTorch's
  counters_.take_back(issued.counted);
  if (ema_ != nullptr) ema_->copy_counts(model_);
}

}  // namespace dlpipe::run
