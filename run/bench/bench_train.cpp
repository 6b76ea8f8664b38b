#include "run/bench/bench.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/counters.h"
#include "base/machine.h"
#include "base/text.h"
#include "dlpipe/error.h"
#include "dlpipe/ops.h"
#include "dlpipe/optim.h"
#include "engine/core/allocator.h"
#include "engine/core/device_memory.h"
#include "engine/core/observers.h"
#include "engine/core/parallel.h"
#include "run/config/values.h"
#include "run/input/batch_input.h"
#include "run/input/box_coding.h"
#include "run/record/kernels.h"
#include "run/use/graph_model.h"

namespace dlpipe::run {

using engine::Tensor;

namespace {

constexpr double kSmallRate = 1e-3;  // so small that no random batch makes the weights overflow

BenchTrainOptions with_defaults(BenchTrainOptions options, const engine::ModelRecord& record) {
  constexpr int64_t kImageNetLike = 96;
  if (options.size == 0) options.size = record.default_size > 0 ? record.default_size : 32;
  if (options.classes == 0) options.classes = record.default_classes;
  if (options.classes == 0) options.classes = options.size >= kImageNetLike ? 1000 : 10;
  if (options.threads == 0) options.threads = available_threads();
  return options;
}

bool takes_tokens(const engine::ModelRecord& record) {
  return record.input == engine::ModelInput::kTokens;
}

engine::ModelArguments arguments_of(const BenchTrainOptions& options, const engine::ModelRecord& record) {
  const int64_t length = takes_tokens(record) ? options.size : 0;
  return {options.classes, options.channels, options.size, options.size, 1, length};
}

/// A model of an ONNX file or a captured one.
struct ModelFile {
  std::shared_ptr<const engine::ModelRecord> owner;  // of what the record points to
  engine::ModelRecord record;
  std::vector<engine::NamedTensor> weights;
};

/// nullopt for the name of a built-in model.
std::optional<ModelFile> model_file(const BenchTrainOptions& options, const Registries& registries) {
  const std::string& name = options.model;
  if (registries.models.get(name) != nullptr) return std::nullopt;
  check_named_model_file("bench", name);
  if (!is_model_file(name)) return std::nullopt;
  WeightsSource source = open_graph_weights(name, false).value();
  ModelFile file{source.graph, *source.graph, std::move(source.checkpoint_tensors)};
  if (source.state && source.state->task.name == "detect") {
    file.record.output = engine::ModelOutput::kBoxes;
    file.record.boxes = source.state->task.boxes;
  }
  const int64_t size = file.record.default_size, classes = file.record.default_classes;
  if (size == 0)
    refuse("bench", name, " needs images of unequal sides, but bench train generates square ones");
  if ((options.size != 0 && options.size != size) || (options.classes != 0 && options.classes != classes))
    refuse("bench", name, " is for images of ", size, "x", size, " and ", classes,
           " classes; leave --size and --classes out");
  return file;
}

/// The operations of the forward pass of one image, added up op by op.
double flops_of_ops(engine::Module& model, const engine::ModelArguments& arguments) {
  struct Counter : engine::CallObserver {
    double flops = 0;
    void on_call(const engine::OpRow& row, std::span<const Tensor> inputs, const engine::Attrs& attrs,
                 std::span<const Tensor> /*outputs*/) override {
      if (row.record->flops == nullptr) return;
      std::vector<engine::TensorSpec> specs;
      for (const Tensor& input : inputs)
        specs.push_back(input.defined() ? input.spec() : engine::TensorSpec{});
      flops += row.record->flops(specs, attrs);
    }
    void on_read(const Tensor& /*tensor*/) override {}
  } counter;
  const engine::EvalScope mode(model);
  const engine::NoGrad no_grad;
  const Tensor image = engine::blank_input(arguments, 1);
  const engine::UseCallObserver use(&counter);
  model(image);
  return counter.flops;
}

std::shared_ptr<engine::Module> build_model(const BenchTrainOptions& options,
                                            const engine::ModelRecord& record) {
  std::shared_ptr<engine::Module> model = record.build(arguments_of(options, record));
  if (!options.checkpoint_activations.empty() &&
      model->checkpoint_activations(options.checkpoint_activations) == 0) {
    refuse("bench", "--checkpoint-activations ", options.checkpoint_activations, " matches no module of ",
           options.model);
  }
  return model;
}

std::unique_ptr<engine::Optimizer> build_optimizer(const engine::OptimizerRecord& record,
                                                   const engine::Module& model,
                                                   const Registries& registries) {
  throw_if_error(engine::check_on_device("bench", record, registries.optimizers, model.device()));
  engine::OptimizerArguments arguments;
  arguments.weight_decay = 1e-4;
  return record.build(model.parameters(), arguments);
}

/// The form of the targets that the model learns.
TargetSpec target_of(const BenchTrainOptions& options, const engine::ModelRecord& record) {
  if (record.output == engine::ModelOutput::kPixels)
    return {.form = TargetSpec::Form::kMask, .fields = {"mask"}, .outputs = options.classes};
  if (record.output == engine::ModelOutput::kBoxes)
    return {.form = TargetSpec::Form::kBoxes,
            .fields = {"boxes", "box_labels"},
            .outputs = options.classes,
            .boxes = record.boxes};
  return {};
}

TrainStepOptions step_options(const BenchTrainOptions& options, const engine::ModelRecord& record,
                              const Device& device) {
  TrainStepOptions step;
  step.dtype = value_or_throw(training_dtype(options.dtype, device));
  step.tf32 = take_tf32(options.tf32, device);
  step.target = target_of(options, record);
  step.loss = value_or_throw(find_loss(record.output == engine::ModelOutput::kBoxes
                                           ? value_or_throw(find_box_coding(record.boxes))->loss
                                           : "cross_entropy"));
  step.graph = value_or_throw(parse_graph(options.graph));
  step.accumulate = options.accumulate;
  return step;
}

/// The one batch that all steps use, and its source.
class CachedInput {
 public:
  CachedInput(const BenchTrainOptions& options, const engine::ModelRecord& record, Device& device)
      : source_(takes_tokens(record)
                    ? CachedBatch::random_tokens(options.batch, options.size, options.classes, 1)
                    : CachedBatch::random(options.batch, {options.size, options.size, options.channels},
                                          options.classes, 1, target_of(options, record))) {
    if (!device.is_host())
      on_device_ = batch_input(*value_or_throw(source_->next()), device, target_of(options, record));
  }

  void run(TrainStep& step, int64_t number) {
    if (on_device_) {
      step.run(*on_device_, number, kSmallRate);
    } else {
      step.run(*source_, number, kSmallRate);  // from bytes, as in training
    }
  }

 private:
  std::unique_ptr<CachedBatch> source_;
  std::optional<BatchInput> on_device_;
};

void take_all_outcomes(TrainStep& step) {
  while (step.take_outcome(true)) continue;
}

/// A measured step, and the times of its steps after the warm-up.
struct MeasuredSteps {
  TrainStep* step = nullptr;
  int64_t next = 0;                  // number of its next step
  int64_t in_flight = 0;             // steps that are launched before one is waited for
  std::vector<double> wall_ns = {};  // of each
  LedgerEntry sum = {};
  double cpu_seconds = 0;
  DeviceTimes device = {};
};

LedgerEntry run_step(MeasuredSteps& measured, CachedInput& input, Ledger& ledger) {
  ledger.begin_step();
  input.run(*measured.step, measured.next++);
  while (measured.step->take_outcome()) continue;
  return ledger.end_step();
}

/// Runs steps for `seconds`, at least one.
void measure_for(double seconds, MeasuredSteps& measured, CachedInput& input, Ledger& ledger) {
  const double cpu_begin = process_cpu_seconds();
  const int64_t begin_ns = now_ns();
  do {
    const LedgerEntry entry = run_step(measured, input, ledger);
    measured.wall_ns.push_back(static_cast<double>(entry.wall_ns));
    measured.sum += entry;
  } while (static_cast<double>(now_ns() - begin_ns) * 1e-9 < seconds);
  measured.cpu_seconds += process_cpu_seconds() - cpu_begin;
}

void measure_steps(const BenchTrainOptions& options, MeasuredSteps& measured, CachedInput& input) {
  Ledger ledger;
  ledger.make_current();
  for (int64_t i = 0; i < options.warmup; ++i) run_step(measured, input, ledger);
  take_all_outcomes(*measured.step);
  const DeviceTimes before = measured.step->device_times();
  // An idle device's first steps are only launched; later ones wait for an earlier one.
  for (int64_t i = 0; i < measured.in_flight; ++i) run_step(measured, input, ledger);
  measure_for(options.seconds, measured, input, ledger);
  take_all_outcomes(*measured.step);
  measured.device = measured.step->device_times();
  measured.device.entry -= before.entry;
  measured.device.steps -= before.steps;
}

StepTimes times_of(MeasuredSteps& measured, const BenchTrainOptions& options) {
  std::sort(measured.wall_ns.begin(), measured.wall_ns.end());
  const auto steps = static_cast<double>(measured.wall_ns.size());
  const auto mean_ms = [&](Span span) {
    return static_cast<double>(measured.sum.span_ns[static_cast<size_t>(span)]) * 1e-6 / steps;
  };
  const auto at = [&](double share) { return measured.wall_ns[static_cast<size_t>(share * (steps - 1))]; };
  const auto samples = static_cast<double>(options.batch * options.accumulate);
  const auto rate = [&](double ns) { return samples / (ns * 1e-9); };
  StepTimes times;
  times.steps = static_cast<int64_t>(measured.wall_ns.size());
  times.seconds = static_cast<double>(measured.sum.wall_ns) * 1e-9;
  times.cpu_seconds_per_step = measured.cpu_seconds / steps;
  times.forward_ms = mean_ms(Span::kForward);
  times.backward_ms = mean_ms(Span::kBackward);
  times.optimizer_ms = mean_ms(Span::kOptimizer);
  times.step_ms = at(0.5) * 1e-6;
  times.samples_per_s = rate(at(0.5));
  times.low_samples_per_s = rate(at(0.9));
  times.high_samples_per_s = rate(at(0.1));
  return times;
}

void measure(engine::Module& model, engine::Optimizer& optimizer, const TrainStepOptions& settings,
             CachedInput& input, BenchTrainReport& report) {
  constexpr int64_t kInFlight = 2;  // losses are read this many steps late
  const auto step = TrainStep::create(model, optimizer, nullptr, settings);
  MeasuredSteps measured = {.step = step.get(), .in_flight = model.device().is_host() ? 0 : kInFlight};
  measure_steps(report.options, measured, input);
  static_cast<StepTimes&>(report) = times_of(measured, report.options);
  report.device = measured.device;
  report.graph_reason = step->graph_reason();
}

/// Runs some more steps and measures them op by op.
void explain_steps(TrainStep& step, CachedInput& input, BenchTrainReport& report) {
  constexpr int64_t kSteps = 3;
  const engine::OpProfile profile;
  const int64_t begin = now_ns();
  for (int64_t i = 0; i < kSteps; ++i) {
    input.run(step, report.options.warmup + report.steps + i);
    step.take_outcome(true);
  }
  report.explained_ms = static_cast<double>(now_ns() - begin) * 1e-6 / kSteps;
  report.explained_steps = kSteps;
  report.costs = profile.costs();
}

/// The better of two measurements, before and after `work`, because other programs may slow either down.
template <class Work>
engine::Roofline roofline_around(Device& device, const TrainStepOptions& options, const Work& work) {
  const auto measure = [&] {
    const engine::UseTf32 tf32(options.tf32);
    return measure_roofline(device, options.dtype);
  };
  const engine::Roofline before = measure();
  work();
  const engine::Roofline after = measure();
  return {std::max(before.flops_per_s, after.flops_per_s), std::max(before.bytes_per_s, after.bytes_per_s),
          before.dtype};
}

}  // namespace

BenchTrainReport bench_train(const BenchTrainOptions& given, const Registries& registries) {
  const std::optional<ModelFile> file = model_file(given, registries);
  const engine::ModelRecord& record =
      file ? file->record : *value_or_throw(registries.models.find(given.model));
  const engine::OptimizerRecord* optimizer_record =
      value_or_throw(registries.optimizers.find(given.optimizer));
  BenchTrainReport report;
  const BenchTrainOptions& options = report.options = with_defaults(given, record);
  engine::set_engine_threads(options.threads);
  use_kernels(options.kernels);
  Device& device = *value_or_throw(registries.find_device(options.device));
  const engine::UseCudnn cudnn(value_or_throw(take_cudnn(options.no_cudnn, device)));

  const std::shared_ptr<engine::Module> model = build_model(options, record);
  // Counted while the model is on the host, because it runs on a blank input there.
  if (file) {
    model->load_state_dict(file->weights);
    report.forward_gflop =
        flops_of_ops(*model, arguments_of(options, record)) * static_cast<double>(options.batch) * 1e-9;
  } else {
    report.forward_gflop =
        engine::summarize(*model, arguments_of(options, record), options.batch).flops * 1e-9;
  }
  model->to(device);
  const auto optimizer = build_optimizer(*optimizer_record, *model, registries);
  TrainStepOptions settings = step_options(options, record, device);
  report.tokens = takes_tokens(record) ? options.size : 0;
  model->train();
  CachedInput input(options, record, device);
  measure(*model, *optimizer, settings, input, report);
  report.peak_memory_bytes =
      device.is_host() ? peak_resident_bytes() : engine::allocator_statistics(device).peak_used_bytes;
  if (!options.explain) return report;
  settings.graph = GraphUse::kOff;  // a graph's ops can't be distinguished
  const auto eager = TrainStep::create(*model, *optimizer, nullptr, settings);
  report.roofline = roofline_around(device, settings, [&] { explain_steps(*eager, input, report); });
  return report;
}

}  // namespace dlpipe::run
