// The step of a model on a device: when the call returns, the step is queued in the stream. Steps are launched as one graph if
// possible (StepGraph), outcomes are read later (StepResults), and the device itself decides whether a step counts.
//
// If a batch is divided into grains, or among processes, a step is not a graph, because gradients are summed between kernels
// (gradients/gradient_sum.h): on the device and, between processes, through the host or by NCCL. The host then waits once per
// step, for the losses.

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/counters.h"
#include "base/text.h"
#include "dlpipe/device.h"
#include "dlpipe/log.h"
#include "dlpipe/module.h"
#include "dlpipe/op.h"
#include "dlpipe/ops.h"
#include "dlpipe/optim.h"
#include "dlpipe/tensor.h"
#include "engine/core/allocator.h"
#include "engine/core/device_code.h"
#include "engine/core/device_memory.h"
#include "engine/core/flat_steps.h"
#include "engine/optim/gradients.h"
#include "run/input/batch_input.h"
#include "run/record/device_ledger.h"
#include "run/train/gradients/gradient_sum.h"
#include "run/train/step/grains.h"
#include "run/train/step/train_step.h"

namespace dlpipe::run {

namespace {

using engine::Tensor;

// The integers that a model on any device counts on the host: how many batches its batch norms have seen. A step on a device
// adds to them when it is launched; a relaunched or skipped step must add or undo the same explicitly. Refers to the model's
// buffers; one thread.
class HostCounters {
 public:
  explicit HostCounters(const engine::Module& model) {
    for (const engine::NamedTensor& buffer : model.buffers()) {
      if (buffer.tensor.dtype() == DType::kI64) counters_.push_back(buffer.tensor);
    }
  }
  using Values = std::vector<int64_t>;
  Values values() const {
    Values values;
    for (const engine::Tensor& counter : counters_) values.push_back(*counter.data<int64_t>());
    return values;
  }
  /// The amounts added since the values were `before`.
  Values since(const Values& before) const {
    Values added = values();
    for (size_t i = 0; i < added.size(); ++i) added[i] -= before[i];
    return added;
  }
  void add(const Values& amounts) {
    for (size_t i = 0; i < amounts.size(); ++i) *counters_[i].data<int64_t>() += amounts[i];
  }
  void take_back(const Values& amounts) {
    for (size_t i = 0; i < amounts.size(); ++i) *counters_[i].data<int64_t>() -= amounts[i];
  }

 private:
  std::vector<engine::Tensor> counters_;
};

// A step of a device captured once and launched as a whole from then on: one call instead of a thousand
// launches. A step of several batches is as many graphs, one per batch, the last with the update.
//
// The first step runs normally, because kernels and libraries initialise themselves. The second uses copies of its input and a
// separate pool of memory. The third is captured, with the memory and addresses of the second. Every launch also adds the host's
// counts of a step (HostCounters) and applies the capture's marks to the ledger.
class StepGraph {
 public:
  /// `model` is trained with `batches` per step; the ledger, which must outlive it, records its times. With `reason`, steps are
  /// never captured, for that reason.
  StepGraph(Device& device, const engine::Module& model, DeviceLedger& ledger, int64_t batches,
            std::string reason = "");

  using Work = std::function<void(const BatchInput& input)>;
  /// Runs batch number `micro` of the step: calls `work`, or launches its captured graph. Of the values that change from step to
  /// step, the work may read only the input's, those at fixed addresses on the device, and the model's gradients and `loss` from
  /// the batch before. It may replace gradients and `loss`.
  void run(const BatchInput& input, int64_t micro, engine::Tensor& loss, const Work& work);

  /// Why steps are not captured; empty if they are, or will be.
  const std::string& reason() const { return reason_; }

 private:
  /// The results of a batch's work, at the addresses of its launches; the pool owns the memory.
  struct Part {
    DeviceLedger::Marks marks;
    HostCounters::Values counts;
    std::vector<engine::Tensor> gradients;
    engine::Tensor loss;
    std::unique_ptr<Graph> graph;
  };
  enum class Phase : uint8_t { kFirst, kPooled, kCapture, kLaunch };

  void take(const BatchInput& input);
  bool fits(const BatchInput& input) const;
  void run_batch(const BatchInput& input, size_t micro, engine::Tensor& loss, const Work& work);
  bool capture(engine::Tensor& loss, const Work& work);
  /// Current gradients and loss, without the rest of a Part.
  Part left_now(const engine::Tensor& loss) const;
  void put_back(const Part& part, engine::Tensor& loss);
  void launch(Part& part);
  void end_step();

  Device& device_;
  int64_t batches_;
  std::string reason_;
  DeviceLedger& ledger_;
  HostCounters counters_;
  std::vector<engine::NamedTensor> parameters_;
  Phase phase_ = Phase::kFirst;
  bool is_whole_ = true;  // all batches of the current step ran as its phase says
  engine::BlockPool pool_;
  BatchInput input_;  // at the addresses that the graphs know
  std::vector<Part> parts_;
};

// The results of steps on a device: the loss, whether the step counted, where the time went. A few scalars per step are copied
// to page-locked memory after the step's own work, so that the host launches steps ahead of the device and reads their losses
// later, in order.
//
// Belongs to the training thread.
class StepResults {
 public:
  explicit StepResults(Device& device);
  ~StepResults();  // waits: copies into this memory may be under way

  struct Result {
    float loss = 0;
    int32_t found_inf = engine::cuda::kAllFinite;  // a FoundInf: whether the step counted, or why it didn't
    float loss_scale = 0;                          // of the next step; 0: the loss is not scaled
  };
  /// Queues the copy of `loss` (f32, one element; undefined: 0) and the flags in the thread's stream. Ends the ledger's step.
  /// Not while is_full().
  void push(const engine::Tensor& loss, const engine::DeviceStepFlags& flags);
  int64_t pending() const { return pushed_ - popped_; }
  bool is_full() const { return pending() == TrainStep::kMostInFlight; }
  /// Whether the oldest step is finished.
  bool is_ready() const;
  /// Removes and returns the oldest result; waits for it.
  Result pop();
  /// The code that runs steps also begins and marks them in this ledger.
  DeviceLedger& ledger() { return ledger_; }
  const DeviceTimes& times() const { return ledger_.times(); }

 private:
  Event& over(int64_t number) const { return *over_[static_cast<size_t>(number % TrainStep::kMostInFlight)]; }
  Result& entry(int64_t number) const {
    return reinterpret_cast<Result*>(memory_.data())[number % TrainStep::kMostInFlight];
  }

  Device& device_;
  Buffer memory_;
  std::array<std::unique_ptr<Event>, TrainStep::kMostInFlight> over_;
  DeviceLedger ledger_;
  int64_t pushed_ = 0;
  int64_t popped_ = 0;
};

class DeviceTrainStep final : public TrainStep {
 public:
  DeviceTrainStep(engine::Module& model, engine::Optimizer& optimizer, engine::Ema* ema,
                  const TrainStepOptions& options);

  std::optional<StepOutcome> take_outcome(bool wait) override;
  DeviceTimes device_times() const override { return results_.times(); }
  std::string graph_reason() const override { return graph_->reason(); }
  engine::GradScaler* scaler() const override { return scaler_.get(); }

 private:
  /// A step whose outcome was not taken yet.
  struct Issued {
    StepOutcome outcome;
    BatchInput input;              // of the last batch, to find the layer
    HostCounters::Values counted;  // in the step
  };
  /// The parts that are only needed for grains or several processes.
  struct Together {
    Together(BatchPass& pass, const TrainStepOptions& options);
    GradientSum gradients;
    StatisticsMean statistics;
    StepSummary summary;
    std::vector<engine::Tensor> losses = {};  // [batch][grain] of this step; undefined: no weight
  };
  void begin(int64_t step, double lr) override;
  BatchInput arrive(const Batch& batch) override;
  Stream* stream() override;
  /// Each batch of a step is one piece of work, so that it can be captured.
  void take(BatchInput input, int64_t micro, StepOutcome& outcome) override;
  const StepOutcome* finish(StepOutcome outcome) override;
  /// Adds the batch's loss to the step's and its gradients to the parameters'.
  void accumulate_gradients(BatchInput input, int64_t step, int64_t micro);
  /// The loss of a part; undefined if the part has no weight.
  engine::Tensor forward(const BatchInput& input, int64_t step, int64_t part);
  void backward(const engine::Tensor& loss);
  void check_graph() const;
  void take_grains(const BatchInput& input, int64_t micro, int64_t step);
  /// Adds up all grains' gradients, statistics and losses; waits for them.
  void add_up(StepOutcome& outcome);
  /// Where in the model the loss number `loss` became non-finite.
  std::string layer_of(size_t loss, int64_t step);
  void update();
  /// Where a number was not finite.
  std::string reason_of(const Issued& issued, const StepResults::Result& result);
  void complete(Issued& issued, const StepResults::Result& result);
  void mark(Span span) { results_.ledger().mark(span); }

  Device& device_;
  engine::Module& model_;
  engine::Optimizer& optimizer_;
  engine::Ema* ema_;
  const TrainStepOptions options_;
  BatchPass pass_;
  HostCounters counters_;
  HostCounters::Values counts_before_;          // the step under way
  engine::Tensor loss_;                         // of the step so far
  BatchInput last_input_;                       // the last batch of the step so far
  engine::DeviceStepFlags flags_;               // of the last step
  std::unique_ptr<engine::GradScaler> scaler_;  // with f16
  std::unique_ptr<Together> together_;          // null: a batch is computed whole, by this process alone
  std::deque<Issued> issued_;
  std::unique_ptr<StepGraph> graph_;  // marks in the ledger of results_
  StepResults results_;               // destroyed first: waits for steps that use the graph's memory
};

const char* reason_without_graph(const TrainStepOptions& options) {
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
}

void DeviceTrainStep::begin(int64_t, double lr) {
  counts_before_ = counters_.values();
  results_.ledger().begin_step();
  optimizer_.set_rate_on_device(lr);
}

Stream* DeviceTrainStep::stream() {
  return &engine::engine_stream(device_);
}

// A batch in host memory is copied during its preparation.
BatchInput DeviceTrainStep::arrive(const Batch& batch) {
  if (batch.copy_event != nullptr) throw_if_error(device_.wait(*stream(), *batch.copy_event));
  mark(Span::kDataIdle);
  wait_for_batch(batch, device_);
  if (batch.ready_event != nullptr) mark(Span::kHostToDevice);
  BatchInput input = arrived_batch_input(batch, device_, options_.target);
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
    throw Error(Status(ErrorCode::kUnsupported, concat("[train] --graph on: ", graph_->reason(),
                                                       "; with --graph auto, no graph is used")));
}

void DeviceTrainStep::accumulate_gradients(BatchInput input, int64_t step, int64_t micro) {
  Tensor loss = forward(input, step, micro);
  if (!loss.defined()) return;  // a batch with only dropped rows has no gradient
  {
    const SpanScope span(Span::kForward);
    loss = pass_.share(loss);
    const engine::NoGrad no_grad;
    loss_ = loss_.defined() ? engine::add(loss_, loss.detach()) : loss.detach();
    mark(Span::kForward);
  }
  const SpanScope span(Span::kBackward);
  backward(loss);
  loss = Tensor();  // releases the graph and the input inside the span
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

// Processes take an outcome after the same step, not when each device happens to be ready, because an error in one process ends
// all of them.
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
  // The model has not changed since, because this step and all later ones were halted.
  if (!options_.skip_nonfinite && !outcome.overflowed)
    fail_nonfinite(outcome.step, reason_of(issued, result));
  outcome.skipped = true;
  outcome.reason = outcome.overflowed ? "gradients times the loss scale" : "the loss or its gradients";
  if (!options_.skip_nonfinite) return;  // the loss was finite: as in PyTorch, batch norms keep the batch
  counters_.take_back(issued.counted);
  if (ema_ != nullptr) ema_->copy_counts(model_);
}

// The same memory, not owned.
Tensor borrowed(const Tensor& tensor) {
  if (!tensor.defined()) return tensor;
  return Tensor::borrow(tensor.raw(), tensor.shape(), tensor.dtype(), tensor.device());
}

StepGraph::StepGraph(Device& device, const engine::Module& model, DeviceLedger& ledger, int64_t batches,
                     std::string reason)
    : device_(device),
      batches_(batches),
      reason_(std::move(reason)),
      ledger_(ledger),
      counters_(model),
      parameters_(model.parameters()),
      pool_(device) {
  if (reason_.empty() && batches > TrainStep::kMostGraphs)
    reason_ = concat("a step is more than ", TrainStep::kMostGraphs, " batches (--accumulate)");
}

bool StepGraph::fits(const BatchInput& input) const {
  return !input_.pixels.defined() ||
         (input.pixels.spec() == input_.pixels.spec() && input.target.spec() == input_.target.spec());
}

void StepGraph::take(const BatchInput& input) {
  if (!input_.pixels.defined()) {
    input_ = input;
    for (Tensor* const tensor : {&input_.pixels, &input_.target, &input_.weight}) *tensor = tensor->clone();
  }
  const auto copy = [&](const Tensor& to, const Tensor& from) {
    engine::copy_memory(device_, to.raw(), device_, from.raw(), to.size_bytes());
  };
  copy(input_.pixels, input.pixels);
  copy(input_.target, input.target);
  copy(input_.weight, input.weight);
}

// Capturing runs nothing on the device. If it fails, the work is repeated from the state after the previous batch. Memory comes
// from the pool, which is otherwise unused at this time.
bool StepGraph::capture(Tensor& loss, const Work& work) {
  Part part;
  const HostCounters::Values counts_before = counters_.values();
  const Part before = left_now(loss);
  ledger_.begin_capture();
  try {
    const engine::BlockPool::Use use(pool_);
    engine::Capture capture(device_);
    work(input_);
    part = left_now(loss);
    part.graph = capture.finish();
  } catch (const Error& error) {
    reason_ = error.what();
  }
  part.marks = ledger_.end_capture();
  part.counts = counters_.since(counts_before);
  counters_.take_back(part.counts);
  if (part.graph == nullptr) {
    put_back(before, loss);
    return false;
  }
  parts_.push_back(std::move(part));
  return true;
}

StepGraph::Part StepGraph::left_now(const Tensor& loss) const {
  Part part;
  part.loss = borrowed(loss);
  for (const engine::NamedTensor& parameter : parameters_)
    part.gradients.push_back(borrowed(parameter.tensor.grad()));
  return part;
}
void StepGraph::put_back(const Part& part, Tensor& loss) {
  loss = part.loss;
  for (size_t i = 0; i < parameters_.size(); ++i) parameters_[i].tensor.set_grad(part.gradients[i]);
}

void StepGraph::launch(Part& part) {
  ledger_.replay(part.marks, *part.graph);
  throw_if_error(device_.launch(*part.graph, engine::engine_stream(device_)));
  counters_.add(part.counts);
}

void StepGraph::run(const BatchInput& input, int64_t micro, Tensor& loss, const Work& work) {
  run_batch(input, static_cast<size_t>(micro), loss, work);
  if (micro + 1 == batches_) end_step();
}

void StepGraph::run_batch(const BatchInput& input, size_t micro, Tensor& loss, const Work& work) {
  if (!reason_.empty() || phase_ == Phase::kFirst) return work(input);
  const bool fits_in = input.total_weight > 0 && fits(input);
  if (is_whole_ && !fits_in && phase_ == Phase::kLaunch && micro > 0) put_back(parts_[micro - 1], loss);
  is_whole_ = is_whole_ && fits_in;
  if (!is_whole_) return work(input);
  take(input);
  if (phase_ == Phase::kPooled) {
    const engine::BlockPool::Use use(pool_);
    return work(input_);
  }
  if (phase_ == Phase::kCapture && !capture(loss, work)) return work(input);
  launch(parts_[micro]);
  if (phase_ == Phase::kLaunch) loss = parts_[micro].loss;
}

// The graphs of a step contain each other's addresses: they are captured in one step, or none of them is kept.
void StepGraph::end_step() {
  if (phase_ == Phase::kFirst) {
    phase_ = Phase::kPooled;
  } else if (is_whole_ && phase_ != Phase::kLaunch) {
    phase_ = phase_ == Phase::kPooled ? Phase::kCapture : Phase::kLaunch;
  }
  if (phase_ != Phase::kLaunch && !parts_.empty()) {
    engine::synchronize(device_);  // they may still be running
    parts_.clear();
  }
  is_whole_ = true;
}

StepResults::StepResults(Device& device)
    : device_(device),
      memory_(value_or_throw(
          Buffer::allocate(device, TrainStep::kMostInFlight * sizeof(Result), Buffer::Memory::kPinned))),
      ledger_(device, TrainStep::kMostInFlight) {
  for (auto& event : over_) event = value_or_throw(device.create_event());
}

StepResults::~StepResults() {
  if (pending() > 0) (void)device_.synchronize(over(pushed_ - 1));
}

void StepResults::push(const engine::Tensor& loss, const engine::DeviceStepFlags& flags) {
  Result& to = entry(pushed_);
  to = {};
  Stream& stream = engine::engine_stream(device_);
  const auto fetch = [&]<class T>(T& value, const void* from) {
    if (from != nullptr)
      throw_if_error(device_.copy_async(&value, from, sizeof value, CopyKind::kDeviceToHost, stream));
  };
  fetch(to.loss, loss.defined() ? loss.raw() : nullptr);
  fetch(to.found_inf, flags.found_inf);
  fetch(to.loss_scale, flags.loss_scale);
  ledger_.end_step(Span::kOptimizer);
  throw_if_error(device_.record(over(pushed_), stream));
  ++pushed_;
}

bool StepResults::is_ready() const {
  return pending() > 0 && value_or_throw(device_.is_complete(over(popped_)));
}

StepResults::Result StepResults::pop() {
  throw_if_error(device_.synchronize(over(popped_)));
  ledger_.take_step();
  return entry(popped_++);
}

}  // namespace

std::unique_ptr<TrainStep> TrainStep::on_device(engine::Module& model, engine::Optimizer& optimizer,
                                                engine::Ema* ema, const TrainStepOptions& options) {
  return std::make_unique<DeviceTrainStep>(model, optimizer, ema, options);
}

}  // namespace dlpipe::run
