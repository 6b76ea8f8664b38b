#include "run/bench/bench.h"

#include <algorithm>
#include <numeric>

#include "base/counters.h"
#include "base/machine.h"
#include "dlpipe/error.h"
#include "dlpipe/graph.h"
#include "engine/core/allocator.h"
#include "engine/core/parallel.h"
#include "engine/graph/run.h"
#include "run/config/values.h"
#include "run/input/path_kind.h"
#include "run/record/kernels.h"

namespace dlpipe::run {

namespace {

using engine::Tensor;
using engine::graph::Runner;
using engine::graph::Value;

class Bench {
 public:
  explicit Bench(BenchRunOptions& options) : runner_(read(options.model)) {
    if (options.threads == 0) options.threads = available_threads();
    engine::set_engine_threads(options.threads);
    use_kernels(options.kernels);
    dtype_ = value_or_throw(compiled_dtype(options.dtype));
    const int64_t only = only_batch();
    if (options.batch == 0) options.batch = std::max<int64_t>(1, only);
    if (only != 0 && options.batch != only)
      refuse("bench", options.model, " only accepts batches of ", only, "; give --batch ", only,
             ", or export it with a variable batch size");
    for (const engine::graph::ValueId id : runner_.graph().inputs) {
      const Value& value = runner_.graph().value(id);
      inputs_.push_back(Tensor::zeros(value.shape_at(options.batch), value.dtype));
    }
  }

  const Runner& runner() const { return runner_; }
  DType dtype() const { return dtype_; }

  int64_t run(const Runner::Observer& observer = nullptr) const {
    const engine::UseAutocast autocast(dtype_);
    const int64_t begin = now_ns();
    runner_.run(inputs_, observer);
    return now_ns() - begin;
  }

  std::vector<engine::graph::LayoutCopies> layout_copies() const {
    const engine::UseAutocast autocast(dtype_);
    return engine::graph::layout_copies(runner_, inputs_);
  }

  int64_t peak_bytes() const {
    const auto before = static_cast<int64_t>(engine::allocator_statistics().used_bytes);
    engine::reset_peak();
    run();
    return static_cast<int64_t>(engine::allocator_statistics().peak_used_bytes) - before;
  }

 private:
  static engine::graph::Graph read(const std::string& model) {
    throw_if_error(refuse_other_kind("bench", model, Wanted::kCompiledModel));
    return engine::graph::inference_form(value_or_throw(engine::graph::read_graph(model)));
  }

  // The number of samples that a graph with inputs of fixed size runs: the first input's first axis. 0: any number.
  int64_t only_batch() const {
    int64_t fixed = 1;
    for (const engine::graph::ValueId id : runner_.graph().inputs) {
      const Value& value = runner_.graph().value(id);
      if (value.batch_axes != 0) return 0;
      if (id == runner_.graph().inputs.front() && value.shape.rank() > 0) fixed = value.shape[0];
    }
    return fixed;
  }

  Runner runner_;
  DType dtype_ = DType::kF32;
  std::vector<Tensor> inputs_;
};

int64_t median(std::vector<int64_t>& times) {
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

}  // namespace

BenchRunReport bench_run(const BenchRunOptions& given) {
  BenchRunReport report;
  report.options = given;
  const Bench bench(report.options);
  bench.run();
  report.peak_bytes = bench.peak_bytes();
  std::vector<int64_t> times;
  constexpr size_t kLeastRuns = 3;
  for (const int64_t begin = now_ns();
       times.size() < kLeastRuns || static_cast<double>(now_ns() - begin) < report.options.seconds * 1e9;)
    times.push_back(bench.run());
  report.runs = static_cast<int64_t>(times.size());
  report.seconds = static_cast<double>(std::accumulate(times.begin(), times.end(), int64_t{0})) * 1e-9;
  report.fastest_ms = static_cast<double>(*std::min_element(times.begin(), times.end())) * 1e-6;
  report.median_ms = static_cast<double>(median(times)) * 1e-6;
  report.samples_per_s = static_cast<double>(report.options.batch) / (report.median_ms * 1e-3);
  return report;
}

RunProfile profile_run(const BenchRunOptions& given) {
  RunProfile profile;
  profile.options = given;
  const Bench bench(profile.options);
  bench.run();
  profile.peak_bytes = bench.peak_bytes();
  profile.roofline = measure_roofline(cpu_device(), bench.dtype());
  const std::vector<engine::graph::LayoutCopies> copies = bench.layout_copies();
  profile.output_copies = copies.back();
  const engine::graph::Graph& graph = bench.runner().graph();
  std::vector<std::vector<int64_t>> times(graph.nodes.size());
  constexpr size_t kLeastRuns = 3;
  for (const int64_t begin = now_ns();
       times.empty() || times[0].size() < kLeastRuns ||
       static_cast<double>(now_ns() - begin) < profile.options.seconds * 1e9;) {
    bench.run([&](size_t node, int64_t ns) { times[node].push_back(ns); });
    if (times.empty()) break;
  }
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const engine::graph::Node& node = graph.nodes[i];
    NodeRate rate;
    rate.name = graph.value(node.outputs[0]).name;
    rate.cost.op = node.op->record->name;
    rate.cost.calls = 1;
    rate.copies = copies[i];
    rate.cost.ns = median(times[i]);
    std::vector<engine::TensorSpec> specs;
    const auto count = [&](engine::graph::ValueId id) {
      if (id == engine::graph::kNone) return engine::TensorSpec();
      const Value& value = graph.value(id);
      const engine::TensorSpec spec = {value.shape_at(profile.options.batch), value.dtype};
      rate.cost.bytes +=
          static_cast<double>(spec.shape.elements()) * static_cast<double>(dtype_size(spec.dtype));
      return spec;
    };
    for (const engine::graph::ValueId id : node.inputs) specs.push_back(count(id));
    for (const engine::TensorSpec& spec : specs)
      rate.cost.inputs += (rate.cost.inputs.empty() ? "" : " ") + spec.shape.to_string();
    for (const engine::graph::ValueId id : node.outputs) count(id);
    if (node.op->record->flops != nullptr)
      rate.cost.flops = node.op->record->flops(specs, node.attrs_at(profile.options.batch));
    profile.nodes.push_back(std::move(rate));
  }
  return profile;
}

}  // namespace dlpipe::run
