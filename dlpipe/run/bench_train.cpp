#include "dlpipe/run/bench_train.h"

#include <algorithm>

#include "dlpipe/base/counter.h"
#include "dlpipe/base/ledger.h"
#include "dlpipe/base/machine.h"
#include "dlpipe/base/text.h"
#include "dlpipe/engine/allocator.h"
#include "dlpipe/engine/cpu/parallel.h"
#include "dlpipe/engine/device_memory.h"
#include "dlpipe/engine/ops.h"
#include "dlpipe/engine/optim/optimizer.h"
#include "dlpipe/run/cached_batch.h"
#include "dlpipe/run/device_roofline.h"
#include "dlpipe/run/kernel_measurements.h"
#include "dlpipe/run/precision.h"
#include "dlpipe/run/train_step.h"

namespace dlpipe::run {

static BenchTrainOptions with_defaults(BenchTrainOptions options, const engine::ModelRecord& record) {
  constexpr int64_t kImageNetLike = 96;
  if (options.size == 0) options.size = record.default_size > 0 ? record.default_size : 32;
  if (options.classes == 0) options.classes = record.default_classes;
  if (options.classes == 0) options.classes = options.size >= kImageNetLike ? 1000 : 10;
  if (options.threads == 0) options.threads = available_threads();
  return options;
}

BenchTrainReport bench_train(const BenchTrainOptions& given, const Registries& registries) {
  const engine::ModelRecord* record = value_or_throw(registries.model_registry().find(given.model));
  const engine::OptimizerRecord* optimizer_record = value_or_throw(engine::find_optimizer(given.optimizer));
  BenchTrainReport report;
  const BenchTrainOptions& options = report.options = with_defaults(given, *record);
  engine::set_engine_threads(options.threads);
  use_kernels(options.kernels);
  Device& device = *value_or_throw(registries.find_device(options.device));
  const engine::UseCudnn cudnn(value_or_throw(take_cudnn(options.no_cudnn, device)));

  const bool tokens = record->input == engine::ModelInput::kTokens;
  report.tokens = tokens ? options.size : 0;
  const engine::ModelArguments arguments{
      options.classes, options.channels, options.size, options.size, 1, tokens ? options.size : 0};
  const std::shared_ptr<engine::Module> model = record->build(arguments);
  if (!options.checkpoint_activations.empty() &&
      model->checkpoint_activations(options.checkpoint_activations) == 0) {
    throw Error(
        Status(ErrorCode::kMisuse, concat("[bench] --checkpoint-activations ", options.checkpoint_activations,
                                          " matches no module of ", options.model)));
  }
  const bool is_host = device.is_host();
  if (!is_host && !optimizer_record->on_device)
    throw Error(
        Status(ErrorCode::kUnsupported, concat("[bench] ", options.optimizer, " has no step on ",
                                               device.name(), "; take sgd, adam, adamw, lamb or muon")));
  // While it is on the host, where it runs on a blank input.
  report.forward_gflop = engine::summarize(*model, arguments, options.batch).flops * 1e-9;
  model->to(device);
  engine::OptimizerArguments optimizer_arguments;
  optimizer_arguments.weight_decay = 1e-4;
  const auto optimizer = optimizer_record->build(model->parameters(), optimizer_arguments);
  TrainStepOptions step_options;
  step_options.dtype = value_or_throw(training_dtype(options.dtype, device));
  step_options.tf32 = take_tf32(options.tf32, device);
  step_options.loss = value_or_throw(find_loss("cross_entropy"));
  step_options.graph = value_or_throw(parse_graph(options.graph));
  step_options.accumulate = options.accumulate;
  TrainStep step(*model, *optimizer, nullptr, step_options);
  model->train();

  const auto source = tokens
                          ? CachedBatch::random_tokens(options.batch, options.size, options.classes, 1)
                          : CachedBatch::random(options.batch, {options.size, options.size, options.channels},
                                                options.classes, 1);
  const std::optional<Batch> batch = value_or_throw(source->next());
  const BatchInput on_device = is_host ? BatchInput() : batch_input(*batch, device);
  const auto run_step = [&](TrainStep& one, int64_t number, double lr) {
    if (is_host) {
      one.run(*source, number, lr);  // from bytes, as in training
    } else {
      one.run(on_device, number, lr);
    }
  };
  constexpr double kSmall = 1e-3;  // so small a rate that no random batch makes the weights overflow
  Ledger ledger;
  ledger.make_current();
  LedgerEntry sum;
  std::vector<double> step_ns;
  double cpu_begin = 0;
  int64_t begin_ns = 0;
  for (int64_t i = 0;; ++i) {
    if (i == options.warmup) {
      while (step.take_outcome(true)) continue;
      report.device = step.device_times();
      begin_ns = now_ns();
      cpu_begin = process_cpu_seconds();
    }
    const bool is_measured = i >= options.warmup;
    if (is_measured && !step_ns.empty() && static_cast<double>(now_ns() - begin_ns) * 1e-9 >= options.seconds)
      break;
    ledger.begin_step();
    run_step(step, i, kSmall);
    while (step.take_outcome()) continue;
    const LedgerEntry entry = ledger.end_step();
    if (!is_measured) continue;
    step_ns.push_back(static_cast<double>(entry.wall_ns));
    sum += entry;
  }
  const auto steps = static_cast<double>(step_ns.size());
  report.cpu_seconds_per_step = (process_cpu_seconds() - cpu_begin) / steps;
  const auto mean_ms = [&](Span span) {
    return static_cast<double>(sum.span_ns[static_cast<size_t>(span)]) * 1e-6 / steps;
  };
  report.forward_ms = mean_ms(Span::kForward);
  report.backward_ms = mean_ms(Span::kBackward);
  report.optimizer_ms = mean_ms(Span::kOptimizer);
  std::sort(step_ns.begin(), step_ns.end());
  const auto at = [&](double share) {
    return step_ns[static_cast<size_t>(share * static_cast<double>(step_ns.size() - 1))];
  };
  const auto rate = [&](double ns) {
    return static_cast<double>(options.batch * options.accumulate) / (ns * 1e-9);
  };
  report.steps = static_cast<int64_t>(step_ns.size());
  report.step_ms = at(0.5) * 1e-6;
  report.samples_per_s = rate(at(0.5));
  report.low_samples_per_s = rate(at(0.9));
  report.high_samples_per_s = rate(at(0.1));
  while (step.take_outcome(true)) continue;
  DeviceTimes times = step.device_times();
  times.entry -= report.device.entry;
  times.steps -= report.device.steps;
  report.device = times;
  report.peak_memory_bytes =
      is_host ? peak_resident_bytes() : engine::allocator_statistics(device).peak_used_bytes;
  report.graph_reason = step.graph_reason();
  if (options.explain) {
    // Before and after: other programs may slow either down.
    const auto measure = [&] {
      const engine::UseTf32 tf32(step_options.tf32);
      return measure_roofline(device, step_options.dtype);
    };
    step_options.graph = TrainStepOptions::Graph::kOff;  // a graph's ops can't be told apart
    TrainStep eager(*model, *optimizer, nullptr, step_options);
    const engine::Roofline before = measure();
    constexpr int64_t kSteps = 3;
    const engine::OpProfile profile;
    const int64_t begin = now_ns();
    for (int64_t i = 0; i < kSteps; ++i) {
      run_step(eager, options.warmup + report.steps + i, kSmall);
      eager.take_outcome(true);
    }
    report.explained_ms = static_cast<double>(now_ns() - begin) * 1e-6 / kSteps;
    report.explained_steps = kSteps;
    report.costs = profile.costs();
    const engine::Roofline after = measure();
    report.roofline = {std::max(before.flops_per_s, after.flops_per_s),
                       std::max(before.bytes_per_s, after.bytes_per_s)};
  }
  return report;
}

}  // namespace dlpipe::run
