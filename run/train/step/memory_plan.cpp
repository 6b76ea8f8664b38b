#include "dlpipe/run/train/step/memory_plan.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "dlpipe/base/machine.h"
#include "dlpipe/engine/core/allocator.h"
#include "dlpipe/engine/core/kernel_table.h"
#include "dlpipe/engine/core/op.h"
#include "dlpipe/engine/core/parallel.h"
#include "dlpipe/engine/layers/recompute.h"
#include "dlpipe/engine/ops/expand.h"
#include "dlpipe/run/input/batch_input.h"
#include "dlpipe/run/input/cached_batch.h"

namespace dlpipe::run {

namespace {

/// Has a probe ask a table of its own, which begins as a copy of the run's: batches that only the probe has are
/// no choices of the run. `measured`: whom the table asks, as the run's does; null: nobody.
class KernelTableScope {
 public:
  explicit KernelTableScope(std::shared_ptr<engine::cpu::MeasuredKernels> measured) {
    throw_if_error(table_.load(engine::kernel_table().save()));
    table_.measure_with(std::move(measured));
  }

 private:
  engine::KernelTable table_;
  engine::UseKernelTable use_{&table_};
};

uint64_t bytes_of(const std::vector<engine::NamedTensor>& tensors) {
  uint64_t bytes = 0;
  for (const engine::NamedTensor& entry : tensors) bytes += entry.tensor.size_bytes();
  return bytes;
}

/// What validation does with one batch.
void judge_batch(engine::Module& model, BatchSource& source, const EvalOptions& options) {
  const engine::NoGrad no_grad;
  const engine::UseAutocast autocast(options.dtype);
  model.eval();
  const Batch batch = *value_or_throw(source.next());
  view_logits(model, batch_input(batch, model.device()).pixels, options.views);
}

/// Has gradients go as a GradientSum does, as long as it lives.
class PassingGradients {
 public:
  explicit PassingGradients(engine::Module& model)
      : parameters_(std::make_shared<std::vector<engine::NamedTensor>>(model.parameters())) {
    for (size_t i = 0; i < parameters_->size(); ++i) {
      engine::Tensor& parameter = (*parameters_)[i].tensor;
      if (parameter.requires_grad())
        parameter.register_hook(
            [this_one = std::weak_ptr(parameters_), last = last_, i](const engine::Tensor&) {
              const auto all = this_one.lock();
              if (all == nullptr || engine::is_recomputing()) return engine::Tensor();
              if (const auto before = std::exchange(*last, i)) let_go((*all)[*before].tensor);
              return engine::Tensor();
            });
    }
  }

 private:
  /// A device's optimizer wants a gradient of every parameter: one zero, seen as all of them.
  static void let_go(engine::Tensor& parameter) {
    if (parameter.device().is_host()) return parameter.zero_grad();
    const engine::Tensor zero = engine::Tensor::full({}, 0, DType::kF32, parameter.device());
    parameter.set_grad(engine::expanded_view(zero, parameter.shape()));
  }

  std::shared_ptr<std::vector<engine::NamedTensor>> parameters_;
  std::shared_ptr<std::optional<size_t>> last_ =
      std::make_shared<std::optional<size_t>>();  // whose arrived last
};

/// What steps and a validation of some samples took.
struct Probe {
  MemoryPlan fixed;     // what doesn't grow with the batch
  uint64_t packed = 0;  // of weights, kept during a step: the same for all batches that run the same kernels
  uint64_t step = 0;    // at most, beside these
  uint64_t validation = 0;  // 0: there is none
};

Probe probe(const MemoryPlanArguments& arguments, int64_t batch) {
  Device& device = *arguments.device;
  const bool is_host = device.is_host();
  const size_t before = engine::allocator_statistics(device).used_bytes;
  const std::shared_ptr<engine::Module> model = arguments.model->build(arguments.model_arguments);
  for (const std::string& pattern : arguments.freeze) model->freeze(pattern);
  for (const std::string& pattern : arguments.checkpoint_activations) model->checkpoint_activations(pattern);
  model->to(device);
  const auto optimizer = arguments.optimizer->build(model->parameters(), arguments.optimizer_arguments);
  model->train();
  const engine::ModelArguments& m = arguments.model_arguments;
  const auto source = m.length > 0
                          ? CachedBatch::random_tokens(batch, m.length, m.classes, 1)
                          : CachedBatch::random(batch, {m.height, m.width, m.channels}, m.classes, 1);
  TrainStepOptions options = arguments.step;
  options.skip_nonfinite = true;  // random pictures may do anything; memory is what counts
  options.clip = 0;
  options.graph = GraphUse::kOff;
  // What a replay takes is about the same, and never beside validation's (run/train/step/host_replay.h).
  options.compile = false;
  const auto step = TrainStep::create(*model, *optimizer, nullptr, options);
  step->run(*source, 0, 0.0);  // makes the optimizer's state
  step->take_outcome(true);
  std::optional<PassingGradients> passing;
  if (arguments.gradients_go) passing.emplace(*model);
  Probe found;
  MemoryPlan& plan = found.fixed;
  plan.parameters = bytes_of(model->state_dict());
  for (const engine::NamedTensor& parameter : model->parameters()) {
    if (parameter.tensor.requires_grad()) plan.gradients += parameter.tensor.size_bytes();
  }
  plan.optimizer = bytes_of(optimizer->state());
  // Neither what earlier work of this process needed counts, nor what the first step tried.
  if (is_host) engine::renew_worker_scratch();
  const uint64_t lasting = plan.parameters + (arguments.gradients_go ? 0 : plan.gradients) + plan.optimizer;
  const auto most_beside = [&](const auto& work) {
    engine::reset_peak(device);
    work();
    const uint64_t peak = engine::allocator_statistics(device).peak_used_bytes - before;
    return peak - std::min(peak, lasting);
  };
  found.step = most_beside([&] {
    step->run(*source, 1, 0.0);
    step->take_outcome(true);
  });
  found.packed = step->packed_bytes();
  found.step -= std::min(found.step, found.packed);
  if (arguments.val_image.rank() > 0) {  // larger pictures than training's, several views
    found.validation = most_beside([&] {
      judge_batch(*model, *CachedBatch::random(batch, arguments.val_image, m.classes, 2), arguments.eval);
    });
  }
  // A probe's few slices may all have run on one worker.
  if (is_host)
    plan.workspace = engine::largest_worker_scratch_bytes() * static_cast<uint64_t>(engine::engine_threads());
  return found;
}

/// A straight line through what two batches took.
struct Line {
  Line(int64_t small, uint64_t less, int64_t large, uint64_t more)
      : large(large),
        more(static_cast<double>(more)),
        slope((static_cast<double>(more) - static_cast<double>(less)) / static_cast<double>(large - small)) {}
  double at(int64_t batch) const { return std::max(0.0, more + slope * static_cast<double>(batch - large)); }

  int64_t large;
  double more, slope;
};

}  // namespace

int64_t MemoryPlan::largest_batch(uint64_t limit) const {
  const double fixed = static_cast<double>(total()) - bytes_a_sample * static_cast<double>(batch);
  const double left = static_cast<double>(limit) - fixed;
  if (left < bytes_a_sample || bytes_a_sample <= 0) return 0;
  return static_cast<int64_t>(left / bytes_a_sample);
}

/// What a batch will take, by steps of a half and a quarter of it.
static MemoryPlan foretell(const MemoryPlanArguments& arguments) {
  const KernelTableScope kernels(nullptr);
  // Below a few samples the peak may lie in the optimizer's step, which does not grow, and convolutions of small pictures
  // run other kernels: no line begins there. Half and a quarter of the batch, because kernels cut batches in slices of some
  // samples, and each slice has partial sums of its own: less than a slice does not show them.
  constexpr int64_t kFewest = 16;
  const int64_t large =
      std::max<int64_t>(2, std::min(arguments.batch, std::max(kFewest, arguments.batch / 2)));
  const int64_t small = std::max<int64_t>(1, large / 2);
  const Probe less = probe(arguments, small);
  const Probe more = probe(arguments, large);
  // Each by itself: the larger one of two lines is none.
  const Line step(small, less.step, large, more.step);
  const Line validation(small, less.validation, large, more.validation);
  const double of_step = step.at(arguments.batch) + static_cast<double>(more.packed);
  const double of_validation = validation.at(arguments.batch);
  MemoryPlan plan = more.fixed;
  plan.activations = static_cast<uint64_t>(std::max(of_step, of_validation));
  plan.bytes_a_sample = of_step >= of_validation ? step.slope : validation.slope;
  return plan;
}

MemoryPlan plan_memory(const MemoryPlanArguments& arguments) {
  MemoryPlan plan = foretell(arguments);
  // Kernels are chosen by the batch, by rule or by what is fastest there, and may change a small network's need by a third: where
  // the whole batch takes little, it is tried, with the kernels that the run will have, which then needn't find them again.
  constexpr uint64_t kLittle = uint64_t{512} << 20;
  if (arguments.device->is_host() && plan.total() < std::min(kLittle, available_memory_bytes() / 4)) {
    const KernelTableScope kernels(engine::kernel_table().measured());
    const Probe whole = probe(arguments, arguments.batch);
    const double bytes_a_sample = plan.bytes_a_sample;
    plan = whole.fixed;
    plan.activations = std::max(whole.step + whole.packed, whole.validation);
    plan.bytes_a_sample = bytes_a_sample;
  }
  plan.batch = arguments.batch;
  plan.slots = arguments.slot_bytes;
  plan.scratch = arguments.scratch_bytes;
  plan.average = arguments.has_average ? plan.parameters : 0;
  plan.checkpoint = plan.parameters + plan.optimizer + plan.average;
  plan.bytes_a_sample +=
      static_cast<double>(arguments.slot_bytes) / static_cast<double>(std::max<int64_t>(1, arguments.batch));
  engine::release_cached_blocks(*arguments.device);
  return plan;
}

void start_memory_measurement(Device& device) {
  engine::reset_peak(device);
}

uint64_t measured_engine_bytes(Device& device) {
  const uint64_t scratch = device.is_host() ? engine::worker_scratch_bytes() : 0;
  return engine::allocator_statistics(device).peak_used_bytes + scratch;
}

}  // namespace dlpipe::run
