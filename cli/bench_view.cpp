#include "dlpipe/cli/bench_view.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "dlpipe/base/text.h"
#include "dlpipe/cli/output.h"
#include "dlpipe/cli/train_view.h"
#include "dlpipe/io/formats/json.h"
#include "dlpipe/run/record/stage_report.h"

namespace dlpipe::cli {

namespace {

using formats::Json;

// Each op against the roofline: the time that its arithmetic or its bytes need at the machine's measured
// rates.
void print_costs(const run::BenchTrainReport& bench) {
  const auto steps = static_cast<double>(bench.explained_steps);
  const engine::Roofline& roof = bench.roofline;
  std::vector<std::vector<std::string>> rows = {
      {"op", "inputs", "kernel", "calls", "ms per step", "share", "GFLOP/s", "GB/s", "roofline"}};
  double total_ms = 0, rest_ms = 0;
  for (const engine::OpCost& cost : bench.costs) {
    const double seconds = static_cast<double>(cost.ns) * 1e-9;
    const double ms = seconds * 1e3 / steps;
    total_ms += ms;
    constexpr double kSmallShare = 0.005;
    if (ms < kSmallShare * bench.explained_ms) {
      rest_ms += ms;
      continue;
    }
    rows.push_back({cost.op + (cost.backward ? " backward" : ""), cost.inputs, cost.kernel,
                    fixed(static_cast<double>(cost.calls) / steps, 0), fixed(ms, 2),
                    fixed(100 * ms / bench.explained_ms, 1) + " %",
                    cost.flops > 0 ? fixed(cost.flops * 1e-9 / seconds, 0) : "",
                    fixed(cost.bytes * 1e-9 / seconds, 1),
                    fixed(100 * run::roofline_share(cost, roof), 0) + " %"});
  }
  rows.push_back(
      {"smaller ops", "", "", "", fixed(rest_ms, 2), fixed(100 * rest_ms / bench.explained_ms, 1) + " %"});
  rows.push_back({"between ops, optimizer", "", "", "", fixed(bench.explained_ms - total_ms, 2),
                  fixed(100 * (1 - total_ms / bench.explained_ms), 1) + " %"});
  for (auto& row : rows) row.resize(rows[0].size());
  print_answer(format_table(rows));
  print_answer(
      prose(concat("roofline: ", fixed(roof.flops_per_s * 1e-9, 0), " GFLOP/s of ",
                   run::roofline_dtype(bench.options.device, bench.options.dtype), " multiply-adds and ",
                   fixed(roof.bytes_per_s * 1e-9, 1), " GB/s of memory, measured on ", bench.options.threads,
                   bench.options.threads == 1 ? " thread" : " threads",
                   "; GFLOP/s count the plain algorithm, so Winograd may be above")));
}

std::string rate_line(const run::BenchTrainReport& bench) {
  const run::BenchTrainOptions& o = bench.options;
  std::string line = concat(fixed(bench.samples_per_s, 1), " samples/s (", fixed(bench.low_samples_per_s, 1),
                            " to ", fixed(bench.high_samples_per_s, 1), "), ");
  if (bench.tokens > 0)
    line += concat(human_count(std::llround(bench.samples_per_s * static_cast<double>(bench.tokens))),
                   " tokens/s, ");
  line += concat(o.model, " ", o.dtype, ", batch ", o.batch, " of ", o.size);
  line += bench.tokens > 0 ? std::string(" tokens") : concat("x", o.size);
  return line + concat(", ", o.threads, o.threads == 1 ? " thread; " : " threads; ",
                       fixed(bench.forward_gflop, 2), " GFLOP forward; peak memory ",
                       human_bytes(bench.peak_memory_bytes));
}

Json to_json(const run::ReplayedSteps& replayed) {
  const run::StepTimes& times = replayed.times;
  return Json::object({{"reason", replayed.reason},
                       {"samples_per_s", times.samples_per_s},
                       {"low_samples_per_s", times.low_samples_per_s},
                       {"high_samples_per_s", times.high_samples_per_s},
                       {"steps", times.steps},
                       {"seconds", times.seconds},
                       {"step_ms", times.step_ms},
                       {"forward_ms", times.forward_ms},
                       {"backward_ms", times.backward_ms},
                       {"optimizer_ms", times.optimizer_ms},
                       {"cpu_seconds_per_step", times.cpu_seconds_per_step},
                       {"kernels", static_cast<int64_t>(replayed.memory.kernels)},
                       {"arena_bytes", static_cast<int64_t>(replayed.memory.arena_bytes)},
                       {"eager_bytes", static_cast<int64_t>(replayed.memory.eager_bytes)}});
}

Json to_json(const run::BenchTrainReport& bench) {
  const run::BenchTrainOptions& o = bench.options;
  Json json = Json::object({{"samples_per_s", bench.samples_per_s},
                            {"low_samples_per_s", bench.low_samples_per_s},
                            {"high_samples_per_s", bench.high_samples_per_s},
                            {"threads", o.threads},
                            {"device", o.device},
                            {"graph", bench.graph_reason.empty() && o.device != "cpu"},
                            {"graph_reason", bench.graph_reason},
                            {"model", o.model},
                            {"dtype", o.dtype},
                            {"batch", o.batch},
                            {"size", o.size},
                            {"steps", bench.steps},
                            {"samples", bench.steps * o.batch * o.accumulate},
                            {"seconds", bench.seconds},
                            {"step_ms", bench.step_ms},
                            {"forward_ms", bench.forward_ms},
                            {"backward_ms", bench.backward_ms},
                            {"optimizer_ms", bench.optimizer_ms},
                            {"forward_gflop", bench.forward_gflop},
                            {"cpu_seconds_per_step", bench.cpu_seconds_per_step},
                            {"peak_memory_bytes", static_cast<int64_t>(bench.peak_memory_bytes)},
                            {"replayed", Json()},
                            {"device_times", Json()}});
  if (bench.replayed) json.set("replayed", to_json(*bench.replayed));
  if (bench.device.steps > 0) json.set("device_times", run::to_json(bench.device));
  return json;
}

std::string parts_table(const run::BenchTrainReport& bench) {
  std::vector<std::vector<std::string>> rows = {{"one step", "ms"}, {"forward"}, {"backward"},
                                                {"optimizer"},      {"between"}, {"median step"}};
  const auto add_column = [&](const run::StepTimes& times) {
    const double other_ms = times.step_ms - times.forward_ms - times.backward_ms - times.optimizer_ms;
    const double column[] = {times.forward_ms, times.backward_ms, times.optimizer_ms, std::max(other_ms, 0.0),
                             times.step_ms};
    // Steps of some microseconds are compared, too.
    const int digits = bench.replayed ? 3 : 2;
    for (size_t i = 0; i < std::size(column); ++i) rows[i + 1].push_back(fixed(column[i], digits));
  };
  add_column(bench);
  if (bench.replayed) {
    rows[0].emplace_back("replayed");
    add_column(bench.replayed->times);
  }
  return format_table(rows);
}

std::string replay_line(const run::ReplayedSteps& replayed) {
  if (!replayed.reason.empty()) return concat("nothing was replayed: ", replayed.reason);
  const run::ReplayMemory& memory = replayed.memory;
  return concat(memory.kernels, " calls per pass; what they compute takes ", human_bytes(memory.arena_bytes),
                " in one arena, and at most ", human_bytes(memory.eager_bytes),
                " at once where it comes and goes");
}

double ns_of(const engine::OpCost& cost) {
  return static_cast<double>(std::max<int64_t>(cost.ns, 1));
}

Json to_json(const run::OpRate& rate, const engine::Roofline& roof) {
  const engine::OpCost& cost = rate.cost;
  Json json = Json::object({{"op", cost.op},
                            {"backward", cost.backward},
                            {"sample", rate.name},
                            {"note", rate.note},
                            {"inputs", cost.inputs},
                            {"kernel", cost.kernel},
                            {"ns", Json()},
                            {"flops_per_s", Json()},
                            {"bytes_per_s", Json()},
                            {"roofline_share", Json()}});
  if (!rate.note.empty()) return json;  // it says why the op was left out
  return json.set("ns", cost.ns)
      .set("flops_per_s", cost.flops / ns_of(cost) * 1e9)
      .set("bytes_per_s", cost.bytes / ns_of(cost) * 1e9)
      .set("roofline_share", run::roofline_share(cost, roof));
}

Json to_json(const run::BenchOpsReport& bench) {
  Json ops = Json::array();
  for (const run::OpRate& rate : bench.rates) ops.push_back(to_json(rate, bench.roofline));
  return Json::object({{"device", bench.device},
                       {"dtype", bench.options.dtype},
                       {"threads", bench.options.threads},
                       {"roofline_flops_per_s", bench.roofline.flops_per_s},
                       {"roofline_bytes_per_s", bench.roofline.bytes_per_s},
                       {"ops", std::move(ops)}});
}

std::vector<std::string> table_row(const run::OpRate& rate, const engine::Roofline& roof) {
  const engine::OpCost& cost = rate.cost;
  if (!rate.note.empty()) return {cost.op, rate.name, "", rate.note, "", "", "", ""};
  const double ns = ns_of(cost);
  return {cost.op + (cost.backward ? " backward" : ""),
          rate.name,
          cost.inputs,
          cost.kernel,
          fixed(ns * 1e-3, 1),
          cost.flops > 0 ? fixed(cost.flops / ns, 0) : "",
          fixed(cost.bytes / ns, 1),
          fixed(100 * run::roofline_share(cost, roof), 0) + " %"};
}

}  // namespace

void print_bench(const run::BenchTrainReport& bench, bool json) {
  if (json) {
    print_answer(to_json(bench).dump());
    return;
  }
  print_answer(parts_table(bench));
  if (bench.device.steps > 0) print_answer(device_table(bench.device));
  print_answer(prose(rate_line(bench)));
  if (bench.replayed) print_answer(prose(replay_line(*bench.replayed)));
  if (bench.options.device != "cpu")
    print_answer(bench.graph_reason.empty() ? std::string("each step was one graph")
                                            : "launched kernel by kernel: " + bench.graph_reason);
  if (bench.options.explain) print_costs(bench);
}

void print_bench(const run::BenchOpsReport& bench, bool json) {
  if (json) {
    print_answer(to_json(bench).dump());
    return;
  }
  std::vector<std::vector<std::string>> rows = {
      {"op", "sample", "inputs", "kernel", "us", "GFLOP/s", "GB/s", "roofline"}};
  for (const run::OpRate& rate : bench.rates) rows.push_back(table_row(rate, bench.roofline));
  print_answer(format_table(rows));
  print_answer(prose(
      concat("roofline of ", bench.device, ": ", fixed(bench.roofline.flops_per_s * 1e-9, 0), " GFLOP/s of ",
             run::roofline_dtype(bench.options.device, bench.options.dtype), " and ",
             fixed(bench.roofline.bytes_per_s * 1e-9, 1),
             " GB/s of memory; GFLOP/s count the plain algorithm, and what stays in a cache may be above")));
}

}  // namespace dlpipe::cli
