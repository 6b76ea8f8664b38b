#include "run/train/session/plans.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <span>
#include <utility>

#include "base/machine.h"
#include "base/text.h"
#include "dlpipe/error.h"
#include "dlpipe/op.h"
#include "engine/core/allocator.h"
#include "engine/core/kernel_table.h"
#include "engine/core/parallel.h"
#include "engine/layers/recompute.h"
#include "engine/ops/shape_ops.h"
#include "run/input/batch_input.h"
#include "run/train/gradients/gradient_sum.h"
#include "run/train/session/model.h"

namespace dlpipe::run {

namespace {

/// Makes a probe use a copy of the run's kernel table, because choices for batches that only the probe has are not those of the
/// run. `measured`: the measurements that the copy uses; null: none.
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

/// Runs one batch as validation does.
void judge_batch(engine::Module& model, BatchSource& source, const EvalOptions& options) {
  const engine::NoGrad no_grad;
  const engine::UseAutocast autocast(options.dtype);
  model.eval();
  const Batch batch = *value_or_throw(source.next());
  view_logits(model, batch_input(batch, model.device(), options.target).pixels, options.views);
}

/// While it exists, releases gradients like a GradientSum.
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
  /// A device's optimizer needs a gradient for every parameter, so it gets a view of a single zero.
  static void let_go(engine::Tensor& parameter) {
    if (parameter.device().is_host()) return parameter.zero_grad();
    const engine::Tensor zero = engine::Tensor::full({}, 0, DType::kF32, parameter.device());
    parameter.set_grad(engine::expanded_view(zero, parameter.shape()));
  }

  std::shared_ptr<std::vector<engine::NamedTensor>> parameters_;
  std::shared_ptr<std::optional<size_t>> last_ =
      std::make_shared<std::optional<size_t>>();  // whose gradient arrived last
};

/// The memory of a step and of a validation with one size of batch.
struct Probe {
  MemoryPlan fixed;     // what does not grow with the batch
  uint64_t packed = 0;  // packed weights, kept during a step: the same for all batches with the same kernels
  uint64_t step = 0;    // the peak, in addition to these
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
  TrainStepOptions options = arguments.step;
  if (options.target.form == TargetSpec::Form::kNumbers)
    options.target.fields.resize(1);  // random batches have one field
  const engine::ModelArguments& m = arguments.model_arguments;
  const auto source = m.length > 0 ? CachedBatch::random_tokens(batch, m.length, m.classes, 1)
                                   : CachedBatch::random(batch, {m.height, m.width, m.channels}, m.classes, 1,
                                                         options.target);
  // Two batches are enough: the second batch of a step, like all later ones, adds to gradients that exist already. Sums over
  // grains keep their gradients elsewhere and count them separately.
  options.accumulate = arguments.gradients_go ? 1 : std::min<int64_t>(options.accumulate, 2);
  options.skip_nonfinite = true;  // random images may give any numbers; only memory matters
  options.clip = 0;
  options.graph = GraphUse::kOff;
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
  // Excludes memory of earlier work in this process and of the first step's trials.
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
  if (arguments.val_shape.rank() > 0) {  // may have larger images and more views than training
    found.validation = most_beside([&] {
      const auto judged = m.length > 0
                              ? CachedBatch::random_tokens(batch, m.length, m.classes, 2)
                              : CachedBatch::random(batch, arguments.val_shape, m.classes, 2, options.target);
      EvalOptions eval = arguments.eval;
      eval.target = options.target;
      judge_batch(*model, *judged, eval);
    });
    if (arguments.has_average)
      found.validation += plan.parameters;  // the model's own, while it has the averages
  }
  // One worker may have run all of the probe's few slices, so every thread counts with the largest scratch.
  if (is_host)
    plan.workspace = engine::largest_worker_scratch_bytes() * static_cast<uint64_t>(engine::engine_threads());
  return found;
}

/// A straight line through the memory of two batches.
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

/// A batch's memory, estimated from steps with a half and a quarter of it.
static MemoryPlan foretell(const MemoryPlanArguments& arguments) {
  const KernelTableScope kernels(nullptr);
  // A linear fit can't start at a few samples: the peak may be in the optimizer's step, which does not grow, and convolutions of
  // small images run other kernels. Half and a quarter of the batch are used, because kernels divide batches into slices of some
  // samples with separate partial sums, which a batch of less than a slice does not show.
  constexpr int64_t kFewest = 16;
  const int64_t large =
      std::max<int64_t>(2, std::min(arguments.batch, std::max(kFewest, arguments.batch / 2)));
  // Batch norm after global pooling has one value per channel and refuses a single sample. Batches of two or three samples would
  // be probed with one sample, so they are probed only once.
  const bool is_tiny = arguments.batch == 2 || arguments.batch == 3;
  const int64_t small = is_tiny ? 0 : std::max<int64_t>(1, large / 2);
  const Probe less = is_tiny ? Probe() : probe(arguments, small);
  const Probe more = probe(arguments, large);
  // Step and validation are fitted separately, because the maximum of two lines is not a line.
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
  // Kernels depend on the batch, by rules or measurements, and may change a small network's memory by a third. If the whole
  // batch needs little memory, it is measured with the run's kernels, which then need not be searched for again.
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

/// The number of parts of a batch. One part is in memory at a time: a grain, or all grains of a process if they run together.
static int64_t parts_of(const SessionOptions& options) {
  return options.config.sync_bn ? options.ranks.data_world() : options.config.grains;
}

/// The memory that the process holds in addition to what a plan counts. The latter is small before the first step.
static uint64_t bytes_beside() {
  const engine::AllocatorStatistics engine = engine::allocator_statistics();
  const uint64_t counted = engine.used_bytes + engine.cached_bytes;
  const uint64_t resident = resident_bytes();
  return resident - std::min<uint64_t>(resident, counted);
}

MemoryPlan plan_memory(const SessionOptions& options, const SessionData& data, const engine::Module& model) {
  const TrainConfig& config = options.config;
  MemoryPlanArguments arguments;
  arguments.model = options.model;
  arguments.model_arguments = data.model.arguments;
  arguments.freeze = config.freeze;
  arguments.checkpoint_activations = config.checkpoint_activations;
  arguments.optimizer = options.optimizer;
  arguments.optimizer_arguments = optimizer_arguments(options);
  arguments.step = options.step;
  arguments.step.keep_packed = options.step.packs_once();
  arguments.step.grains = 1;  // the probe is one grain, in this process alone
  arguments.step.ranks = nullptr;
  arguments.step.tensor_ranks = nullptr;
  arguments.step.stage_ranks = nullptr;
  arguments.step.replica_ranks = nullptr;
  arguments.step.sync_bn = false;
  arguments.step.shard_optimizer = false;
  if (data.val != nullptr && options.val_every.unit != Interval::Unit::kNever) {
    const std::span<const FieldSpec> schema = data.val->schema();
    const FieldSpec* const judged =
        data.model.arguments.length > 0 ? token_field(schema) : image_field(schema);
    if (judged != nullptr) arguments.val_shape = judged->shape;
    arguments.eval = options.eval;
  }
  arguments.batch = config.batch / parts_of(options);
  arguments.device = options.device;
  arguments.has_average = config.ema > 0;
  arguments.slot_bytes = static_cast<uint64_t>(data.train->stats().slot_bytes);
  if (data.val != nullptr) arguments.slot_bytes += static_cast<uint64_t>(data.val->stats().slot_bytes);
  arguments.scratch_bytes = data.scratch_bytes;
  const GradientSum::Form form = options.step.gradient_form();
  arguments.gradients_go = GradientSum::is_needed(form);
  MemoryPlan plan = plan_memory(arguments);
  plan.gradients = GradientSum::bytes(form, model.parameters());
  if (options.is_on_host()) plan.beside = bytes_beside();
  if (options.step.shares()) plan.optimizer /= static_cast<uint64_t>(options.ranks.data_world());
  if (options.memory_limit == 0 || plan.total() <= options.memory_limit) return plan;
  const int64_t most = plan.largest_batch(options.memory_limit) * parts_of(options);
  refuse("train", "batch ", config.batch, " takes about ", human_bytes(plan.total()),
         " in addition to the program itself, more than --memory ", config.memory, "; ",
         most > 0 ? concat("the largest batch that fits is ", most)
                  : concat("not even one sample fits: use a smaller model, or, because ",
                           human_bytes(plan.scratch),
                           " of it are for decoding and --augment, smaller images between its ops, or fewer "
                           "--threads"));
}

// Assumes that the memory held when an allocation failed is all that is available.
std::string memory_advice(const SessionOptions& options, const MemoryPlan& plan) {
  const int64_t batch = options.config.batch;
  std::string advice = "; use a smaller --batch, --checkpoint-activations, or --dtype bf16";
  if (plan.total() == 0) return advice;
  const uint64_t held = measured_engine_bytes(*options.device) + plan.slots + plan.scratch;
  const int64_t fits = std::min(plan.largest_batch(held) * parts_of(options), batch - 1);
  advice += concat("; the plan was ", human_bytes(plan.total()), " for --batch ", batch);
  return fits > 0 ? concat(advice, ", and ", fits, " should fit") : advice;
}

namespace fs = std::filesystem;

/// How often something that is due at every `interval` can occur, up to `most` times.
static int64_t times(const Interval& interval, const CheckpointCount& count, int64_t most) {
  const auto steps = static_cast<double>(count.steps);
  switch (interval.unit) {
    case Interval::Unit::kNever:
      return 0;
    case Interval::Unit::kSteps:
      return static_cast<int64_t>(std::min(std::ceil(steps / interval.amount), static_cast<double>(most)));
    case Interval::Unit::kEpochs:
      return static_cast<int64_t>(
          std::min(std::ceil(steps / (interval.amount * count.steps_per_epoch)), static_cast<double>(most)));
    case Interval::Unit::kSeconds:
      return std::min(most, count.steps);
  }
  return most;
}

int64_t checkpoints_at_once(const CheckpointCount& count) {
  const bool has_best = count.val_every.unit != Interval::Unit::kNever;
  const int64_t most = count.keep + (has_best ? 1 : 0) + 1;
  // Each validation may be the best so far, which saves a checkpoint. The end of the run always saves one.
  const int64_t saved = times(count.checkpoint_every, count, most) + times(count.val_every, count, most) + 1;
  return std::min(most, count.held + saved);
}

Result<DiskPlan> plan_disk(const std::string& directory, uint64_t checkpoint_bytes, int64_t at_once) {
  DiskPlan plan{directory + "/checkpoints", checkpoint_bytes, at_once, 0, 0};
  std::error_code error;
  const fs::space_info space = fs::space(plan.directory, error);
  if (error) return status_from_errno("train", concat("cannot stat ", plan.directory), error.value());
  plan.free_bytes = space.available;
  std::error_code ignored;
  for (auto file = fs::recursive_directory_iterator(plan.directory, ignored);
       !ignored && file != fs::recursive_directory_iterator(); file.increment(ignored)) {
    std::error_code is_gone;
    if (!file->is_symlink(is_gone) && file->is_regular_file(is_gone)) {
      const uintmax_t bytes = file->file_size(is_gone);
      plan.held_bytes += is_gone ? 0 : bytes;
    }
  }
  return plan;
}

Result<std::string> check_checkpoints_fit(const DiskPlan& plan) {
  const std::string one = human_bytes(plan.checkpoint_bytes);
  const std::string free = human_bytes(plan.free_bytes);
  if (plan.checkpoint_bytes > plan.free_bytes) {
    return Status(ErrorCode::kNoSpace,
                  concat("[train] a checkpoint takes ", one, ", but ", free, " are free in ", plan.directory,
                         "; free space there before the run starts"));
  }
  const uint64_t all = plan.checkpoint_bytes * static_cast<uint64_t>(plan.at_once);
  if (all <= plan.free_bytes + plan.held_bytes) return std::string();
  return concat("the run's checkpoints will not fit on its disk: each takes ", one, ", and up to ",
                plan.at_once, " exist at once (those of --keep, the best, and the one being written), ",
                human_bytes(all), " in total, but only ", free, " are free in ", plan.directory,
                plan.held_bytes > 0
                    ? concat(" in addition to the ", human_bytes(plan.held_bytes), " that they use now")
                    : "",
                "; free space there, or give a smaller --keep");
}

}  // namespace dlpipe::run
