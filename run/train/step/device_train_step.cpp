#include "dlpipe/run/train/step/device_train_step.h"

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

static const char* reason_without_graph(const TrainStepOptions& options) {
  if (options.graph == GraphUse::kOff) return "--graph off";
  if (options.world() > 1) return "gradients of several processes are summed in the middle of a step";
  return options.grains > 1 ? "gradients of several grains are summed in the middle of a step" : "";
}

DeviceTrainStep::Together::Together(BatchPass& pass, const TrainStepOptions& options)
    : gradients(pass.parameters(), options.gradient_form()),
      statistics(pass.buffers(), options.own_grains(), options.ranks),
      summary(options.own_grains(), options.accumulate, options.ranks) {}

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
                                       reason_without_graph(options_));
  if (GradientSum::is_needed(options_.gradient_form()))
    together_ = std::make_unique<Together>(pass_, options_);
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
  if (together_ != nullptr) {
    take_grains(input, micro, outcome.step);
    last_input_ = std::move(input);
    return check_graph();
  }
  pass_.seed(outcome.step, micro);
  graph_->run(input, micro, loss_, [&](const BatchInput& prepared) {
    if (micro == 0) {
      loss_ = Tensor();
      pass_.begin_step();
    }
    accumulate_gradients(prepared, outcome.step, micro);
    if (micro + 1 == options_.accumulate) update();
  });
  check_graph();
  last_input_ = std::move(input);
}

void DeviceTrainStep::check_graph() const {
  if (options_.graph == GraphUse::kOn && !graph_->reason().empty())
    throw Error(Status(ErrorCode::kUnsupported,
                       concat("[train] --graph on: ", graph_->reason(), "; --graph auto goes without")));
}

void DeviceTrainStep::accumulate_gradients(BatchInput input, int64_t step, int64_t micro) {
  Tensor loss = forward(input, step, micro);
  if (!loss.defined()) return;  // a batch of nothing but dropped rows has no gradient
  {
    const SpanScope span(Span::kForward);
    loss = pass_.share(loss);
    const engine::NoGrad no_grad;
    loss_ = loss_.defined() ? engine::add(loss_, loss.detach()) : loss.detach();
    mark(Span::kForward);
  }
  const SpanScope span(Span::kBackward);
  backward(loss);
  loss = Tensor();  // the graph and the input go here, inside the span
  input = BatchInput();
}

Tensor DeviceTrainStep::forward(const BatchInput& input, int64_t step, int64_t part) {
  if (input.total_weight == 0) return {};
  const SpanScope span(Span::kForward);
  const engine::UseTf32 tf32(options_.tf32);
  const engine::UseAutocast autocast(options_.dtype);
  return pass_.loss(input, step, part);
}

void DeviceTrainStep::backward(const Tensor& loss) {
  const engine::UseTf32 tf32(options_.tf32);
  loss.backward(scaler_ != nullptr ? scaler_->seed(loss.shape()) : Tensor());
  mark(Span::kBackward);
}

void DeviceTrainStep::take_grains(const BatchInput& input, int64_t micro, int64_t step) {
  if (micro == 0) {
    pass_.begin_step();
    together_->gradients.begin_step(step);
    together_->statistics.begin_step(step);
    together_->summary.begin_step();
    together_->losses.clear();
  }
  const int64_t grains = options_.own_grains();
  for (int64_t grain = 0; grain < grains; ++grain) {
    const BatchInput part = input.part(grain, grains);
    const int64_t number = micro * options_.grains + options_.first_grain() + grain;
    pass_.seed(step, number);
    together_->statistics.begin(grain);
    const Tensor loss = forward(part, step, number);
    together_->statistics.end(grain);
    mark(Span::kForward);
    const SpanScope span(Span::kBackward);
    together_->gradients.begin(micro, grain);
    if (loss.defined()) backward(pass_.share(loss));
    together_->gradients.end(grain);
    together_->losses.push_back(loss.defined() ? loss.detach() : loss);
  }
}

std::string DeviceTrainStep::layer_of(size_t loss, int64_t step) {
  const int64_t grains = options_.own_grains();
  const auto batch = static_cast<int64_t>(loss) / grains, grain = static_cast<int64_t>(loss) % grains;
  if (batch + 1 < options_.accumulate) return "the loss of one of its first batches";
  return pass_.find_layer(last_input_.part(grain, grains), step,
                          batch * options_.grains + options_.first_grain() + grain);
}

void DeviceTrainStep::add_up(StepOutcome& outcome) {
  const auto grains = static_cast<size_t>(options_.own_grains());
  for (size_t i = 0; i < together_->losses.size(); ++i) {
    const double loss = together_->losses[i].defined() ? together_->losses[i].item() : 0;
    const bool is_bad = !std::isfinite(loss) && together_->summary.is_finite();
    together_->summary.add(static_cast<int64_t>(i / grains), static_cast<int64_t>(i % grains), loss,
                           is_bad ? layer_of(i, outcome.step) : "");
  }
  together_->losses.clear();
  together_->gradients.finish();
  together_->statistics.finish();
  together_->summary.finish(outcome);
  loss_ = Tensor::full({1}, outcome.loss, DType::kF32, device_);
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
  if (together_ != nullptr) {
    add_up(outcome);
    update();
  }
  const SpanScope span(Span::kOptimizer);
  if (ema_ != nullptr) ema_->copy_counts(model_);
  results_.push(loss_, flags_);
  issued_.push_back({std::move(outcome), std::move(last_input_), counters_.since(counts_before_)});
  last_input_ = BatchInput();
  return &issued_.back().outcome;
}

// Processes take outcomes after the same step, not when each of their devices happens to be ready: what ends one ends all.
std::optional<StepOutcome> DeviceTrainStep::take_outcome(bool wait) {
  if (issued_.empty()) return std::nullopt;
  if (!wait && !results_.is_full() && (together_ != nullptr || !results_.is_ready())) return std::nullopt;
  {
    const SpanScope span(Span::kOptimizer);
    complete(issued_.front(), results_.pop());
    if (wait && results_.pending() == 0) results_.ledger().interrupt();
  }
  StepOutcome outcome = std::move(issued_.front().outcome);
  issued_.pop_front();
  return outcome;
}

std::string DeviceTrainStep::reason_of(const Issued& issued, const StepResults::Result& result) {
  if (!issued.outcome.reason.empty()) return issued.outcome.reason;  // another process may have found it
  if (std::isfinite(result.loss)) return "the gradients; the loss is finite";
  return pass_.find_layer(issued.input, issued.outcome.step, options_.accumulate - 1);
}

void DeviceTrainStep::complete(Issued& issued, const StepResults::Result& result) {
  StepOutcome& outcome = issued.outcome;
  outcome.loss = result.loss;
  outcome.loss_scale = result.loss_scale;
  if (result.found_inf == engine::cuda::kAllFinite) return;
  outcome.overflowed = result.found_inf == engine::cuda::kOverflow;
  // Nothing has changed since: the step and all after it were halted.
  if (!options_.skip_nonfinite && !outcome.overflowed)
    fail_nonfinite(outcome.step, reason_of(issued, result));
  outcome.skipped = true;
  outcome.reason = outcome.overflowed ? "gradients times the loss scale" : "the loss or its gradients";
  if (!options_.skip_nonfinite) return;  // the loss was finite: batch norms keep what they saw, as PyTorch's
  counters_.take_back(issued.counted);
  if (ema_ != nullptr) ema_->copy_counts(model_);
}

}  // namespace dlpipe::run
