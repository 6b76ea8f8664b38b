// `dlpipe bench pipeline | decode | storage | train | ops | h2d | run` measures how fast each part is on this machine.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/messages.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/signals.h"
#include "cli/train_view.h"
#include "dlpipe/error.h"
#include "io/data/inspect.h"
#include "io/formats/json.h"
#include "pipeline/bench.h"
#include "run/bench/bench.h"
#include "run/config/values.h"
#include "run/input/dataset.h"
#include "run/record/report.h"

namespace dlpipe::cli {

namespace {

using formats::Json;

// The tables and JSON of `bench train` and `bench ops`.

// Compares each op with the roofline: the time that its arithmetic or its bytes need at the machine's measured rates.
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
  print_answer(prose(concat("roofline: ", fixed(roof.flops_per_s * 1e-9, 0), " GFLOP/s of ",
                            dtype_name(roof.dtype), " multiply-adds and ", fixed(roof.bytes_per_s * 1e-9, 1),
                            " GB/s of memory, measured on ", counted(bench.options.threads, "thread"),
                            "; GFLOP/s count the plain algorithm, so Winograd may exceed it")));
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
  return line + concat(", ", counted(o.threads, "thread"), "; ", fixed(bench.forward_gflop, 2),
                       " GFLOP forward; peak memory ", human_bytes(bench.peak_memory_bytes));
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
                            {"device_times", Json()}});
  if (bench.device.steps > 0) json.set("device_times", run::to_json(bench.device));
  return json;
}

std::string parts_table(const run::BenchTrainReport& bench) {
  std::vector<std::vector<std::string>> rows = {{"one step", "ms"}, {"forward"}, {"backward"},
                                                {"optimizer"},      {"between"}, {"median step"}};
  const double other_ms = bench.step_ms - bench.forward_ms - bench.backward_ms - bench.optimizer_ms;
  const double column[] = {bench.forward_ms, bench.backward_ms, bench.optimizer_ms, std::max(other_ms, 0.0),
                           bench.step_ms};
  for (size_t i = 0; i < std::size(column); ++i) rows[i + 1].push_back(fixed(column[i], 2));
  return format_table(rows);
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
  if (!rate.note.empty()) return json;  // the note says why the op was left out
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
                       {"roofline_dtype", dtype_name(bench.roofline.dtype)},
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

void print_bench(const run::BenchTrainReport& bench, bool json) {
  if (json) {
    print_answer(to_json(bench).dump());
    return;
  }
  print_answer(parts_table(bench));
  if (bench.device.steps > 0) print_answer(device_table(bench.device));
  print_answer(prose(rate_line(bench)));
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
             dtype_name(bench.roofline.dtype), " and ", fixed(bench.roofline.bytes_per_s * 1e-9, 1),
             " GB/s of memory; GFLOP/s count the plain algorithm, and data in a cache may exceed it")));
}

// The parts of the command.

struct BenchOptions {
  bool json = false;
  double seconds = 10;
  std::string memory = "0";
  bool sequential = false;
  std::string device = "cuda";
  pipeline::LoaderOptions loader;
  run::BenchTrainOptions train;
  run::BenchOpsOptions ops;
  run::BenchRunOptions run;
};

std::string count(double value) {
  return human_count(std::llround(value));
}

// Sets the training dataset of a folder of splits, and the channels of its images.
Status find_data(pipeline::LoaderOptions& loader) {
  DLPIPE_ASSIGN_OR_RETURN(loader.data, run::training_data(loader.data));
  DLPIPE_ASSIGN_OR_RETURN(loader.channels, run::image_channels(loader.data));
  return {};
}

Json stages_json(const run::StageReport& report, const std::vector<pipeline::StageRate>& alone) {
  Json stages = Json::array();
  for (const run::StageRow& row : report.rows) {
    Json stage = Json::object({{"name", row.name},
                               {"items", row.items},
                               {"busy_share", row.busy_share},
                               {"wait_share", row.wait_share},
                               {"samples_per_s_alone", row.alone_samples_per_s},
                               {"samples_per_s_one_thread", Json()}});
    for (const pipeline::StageRate& rate : alone) {
      if (rate.name == row.name) stage.set("samples_per_s_one_thread", rate.samples_per_s);
    }
    stages.push_back(std::move(stage));
  }
  return stages;
}

Status bench_pipeline(BenchOptions options) {
  uint64_t memory = 0;
  if (!parse_bytes(options.memory, &memory))
    return misuse("bench", "--memory ", options.memory, "; give a size with a unit, such as 1GiB, or 0");
  options.loader.memory_bytes = static_cast<int64_t>(memory);
  options.loader.shuffle = !options.sequential;
  DLPIPE_RETURN_IF_ERROR(find_data(options.loader));
  DLPIPE_ASSIGN_OR_RETURN(const pipeline::PipelineBench bench,
                          pipeline::bench_pipeline(options.loader, options.seconds));
  const run::StageReport report = run::report_stages(bench.stats, -1);
  if (options.json) {
    const double share_of_stages = 0.3;
    DLPIPE_ASSIGN_OR_RETURN(const std::vector<pipeline::StageRate> alone,
                            pipeline::bench_stages(options.loader, share_of_stages * options.seconds));
    print_answer(Json::object({{"samples_per_s", bench.samples_per_s},
                               {"slowest_samples_per_s", bench.slowest_samples_per_s},
                               {"fastest_samples_per_s", bench.fastest_samples_per_s},
                               {"threads", bench.threads},
                               {"batch", bench.batch},
                               {"augment", options.loader.augment},
                               {"samples", bench.samples},
                               {"seconds", bench.seconds},
                               {"cpu_ns_per_sample", bench.cpu_ns_per_sample},
                               {"peak_memory_bytes", static_cast<int64_t>(bench.peak_resident_bytes)},
                               {"stages", stages_json(report, alone)},
                               {"advice", report.advice}})
                     .dump());
    return {};
  }
  print_answer(stage_table(report));
  print_answer(
      prose(concat(fixed(bench.samples_per_s, 1), " samples/s (", fixed(bench.slowest_samples_per_s, 1),
                   " to ", fixed(bench.fastest_samples_per_s, 1), ") with ", counted(bench.threads, "thread"),
                   "; ", fixed(bench.cpu_ns_per_sample * 1e-3, 1), " us CPU per sample; peak memory ",
                   human_bytes(bench.peak_resident_bytes))));
  return {};
}

Json rate_json(const pipeline::StageRate& rate) {
  return Json::object({{"samples_per_s", rate.samples_per_s}, {"bytes_per_s", rate.bytes_per_s}});
}

Status bench_decode(BenchOptions options) {
  DLPIPE_RETURN_IF_ERROR(find_data(options.loader));
  DLPIPE_ASSIGN_OR_RETURN(const pipeline::DecodeBench bench,
                          pipeline::bench_decode(options.loader, options.seconds));
  if (options.json) {
    print_answer(Json::object({{"samples_per_s", bench.region.samples_per_s},
                               {"threads", 1},
                               {"full", rate_json(bench.full)},
                               {"region", rate_json(bench.region)},
                               {"mean_pixels", bench.mean_pixels},
                               {"mean_region_pixels", bench.mean_region_pixels},
                               {"mean_bytes", bench.mean_bytes}})
                     .dump());
    return {};
  }
  print_answer(format_table(
      {{"decoding, one thread", "img/s", "pixels per image"},
       {"whole images", count(bench.full.samples_per_s), count(bench.mean_pixels)},
       {"the crop's part", count(bench.region.samples_per_s), count(bench.mean_region_pixels)}}));
  return {};
}

Status bench_storage(BenchOptions options) {
  DLPIPE_RETURN_IF_ERROR(find_data(options.loader));
  DLPIPE_ASSIGN_OR_RETURN(const auto dataset, data::Dataset::open(options.loader.data));
  DLPIPE_ASSIGN_OR_RETURN(const data::StorageBench bench,
                          data::bench_storage(*dataset, {.seconds = options.seconds / 4, .seed = 1}));
  if (options.json) {
    print_answer(Json::object({{"samples_per_s", bench.samples_per_s},
                               {"threads", 1},
                               {"samples", bench.samples},
                               {"file_bytes", static_cast<int64_t>(bench.file_bytes)},
                               {"header_ns", bench.header_ns},
                               {"random_record_ns", bench.random_record_ns},
                               {"random_spread", bench.random_spread},
                               {"sequential_record_ns", bench.sequential_record_ns},
                               {"checksum_bytes_per_s", bench.checksum_bytes_per_s}})
                     .dump());
    return {};
  }
  print_answer(format_table({{"storage, one thread", "ns per record"},
                             {"header, random order", fixed(bench.header_ns, 0)},
                             {"record, random order", fixed(bench.random_record_ns, 0)},
                             {"record, in order", fixed(bench.sequential_record_ns, 0)}}));
  print_answer(prose(concat(count(bench.samples_per_s), " records/s in random order; checksums ",
                            human_bytes(static_cast<uint64_t>(bench.checksum_bytes_per_s)), "/s; ",
                            counted(bench.samples, "record"), ", ", human_bytes(bench.file_bytes))));
  return {};
}

Status bench_train(BenchOptions options) {
  options.train.seconds = options.seconds;
  print_bench(run::bench_train(options.train), options.json);
  return {};
}

Status bench_ops(BenchOptions options) {
  options.ops.seconds = options.seconds;
  print_bench(run::bench_ops(options.ops), options.json);
  return {};
}

Status bench_run(BenchOptions options) {
  options.run.seconds = options.seconds;
  const run::BenchRunReport bench = run::bench_run(options.run);
  if (options.json) {
    print_answer(Json::object({{"samples_per_s", bench.samples_per_s},
                               {"model", bench.options.model},
                               {"batch", bench.options.batch},
                               {"threads", bench.options.threads},
                               {"dtype", bench.options.dtype},
                               {"runs", bench.runs},
                               {"samples", bench.runs * bench.options.batch},
                               {"seconds", bench.seconds},
                               {"median_ms", bench.median_ms},
                               {"fastest_ms", bench.fastest_ms},
                               {"peak_bytes", bench.peak_bytes}})
                     .dump());
    return {};
  }
  print_answer(prose(
      concat(fixed(bench.samples_per_s, 1), " samples/s: ", fixed(bench.median_ms, 2), " ms for a batch of ",
             bench.options.batch, " in ", bench.options.dtype, " (median of ", counted(bench.runs, "run"),
             ", fastest ", fixed(bench.fastest_ms, 2), " ms) with ", counted(bench.options.threads, "thread"),
             "; ", "peak memory of values ", human_bytes(static_cast<uint64_t>(bench.peak_bytes)))));
  return {};
}

Status bench_copies(const BenchOptions& options) {
  DLPIPE_ASSIGN_OR_RETURN(Device* const device, find_device(options.device));
  const std::vector<run::CopyRate> rates = run::bench_copies(*device, options.seconds);
  if (options.json) {
    Json sizes = Json::array();
    for (const run::CopyRate& rate : rates) {
      sizes.push_back(Json::object({{"bytes", rate.bytes},
                                    {"pinned_to_device_bytes_per_s", rate.pinned_to_device},
                                    {"pinned_to_host_bytes_per_s", rate.pinned_to_host},
                                    {"pageable_to_device_bytes_per_s", rate.pageable_to_device},
                                    {"pageable_to_host_bytes_per_s", rate.pageable_to_host}}));
    }
    print_answer(Json::object({{"device", device->name()}, {"sizes", std::move(sizes)}}).dump());
    return {};
  }
  std::vector<std::vector<std::string>> rows = {
      {"GB/s", "pinned to device", "to host", "pageable to device", "to host"}};
  for (const run::CopyRate& rate : rates) {
    std::vector<std::string> row = {human_bytes(static_cast<uint64_t>(rate.bytes))};
    for (const double value :
         {rate.pinned_to_device, rate.pinned_to_host, rate.pageable_to_device, rate.pageable_to_host})
      row.push_back(fixed(value * 1e-9, 2));
    rows.push_back(std::move(row));
  }
  print_answer(format_table(rows));
  print_answer(device->name() + (device->is_host() ? ", where a copy is memcpy" : ""));
  return {};
}

Flags add_part(Flags& flags, const std::string& name, const std::string& help, BenchOptions& options) {
  Flags part = flags.add_part(name, help);
  part.add_option("--seconds", options.seconds, "Seconds to measure").range(0.1, 1e5);
  part.add_flag("--json", options.json, "Print one JSON line");
  return part;
}

void add_loader_options(Flags& part, pipeline::LoaderOptions& loader) {
  part.add_option("DATA", loader.data, "Dataset, or a folder of splits (uses train)").required();
  part.add_option("--augment", loader.augment, "Augmentations, e.g. \"rrc(224) hflip\"");
  part.add_option("--batch", loader.batch, "Images per batch");
  part.add_option("--slots", loader.slots, "Batches in flight");
  part.add_option("--seed", loader.seed, "Seed of the order and of random draws");
}

void add_train_options(Flags& part, run::BenchTrainOptions& train) {
  part.add_option("--model", train.model, "Model by name, or an ONNX or .dlm file");
  part.add_option("--dtype", train.dtype, "f32 or bf16; on a GPU also f16");
  part.add_flag("--tf32", train.tf32, "On CUDA: f32 products and convolutions may use TF32");
  part.add_flag("--no-cudnn", train.no_cudnn, "On CUDA: convolutions and attention without cuDNN");
  part.add_option("--optimizer", train.optimizer, "Optimizer by name");
  part.add_option("--batch", train.batch, "Images per batch").range(1, 1'000'000);
  part.add_option("--accumulate", train.accumulate, "Batches whose gradients make one step")
      .range(1, 1'000'000);
  part.add_option("--size", train.size, "Height and width, or tokens; 0: the model's own").range(0, 65536);
  part.add_option("--channels", train.channels, "Channels").range(1, 4);
  part.add_option(
      "--classes", train.classes,
      "Classes, or the vocabulary; 0: the model's own, else 1000 for at least 96 pixels, 10 below");
  part.add_option("--threads", train.threads, "Threads; 0: as many as the process may use")
      .range(0, kMostThreads);
  part.add_option("--checkpoint-activations", train.checkpoint_activations,
                  "Modules (a glob) that run again in backward instead of keeping their activations");
  part.add_flag("--explain", train.explain,
                "Print each op's kernel, rates and share of the machine's roofline");
  part.add_option(
          "--kernels", train.kernels,
          "How kernels are chosen; auto: the value of the environment variable DLPIPE_KERNELS, else measured")
      .completes(names_of(run::kKernelsByNames));
  part.add_option("--device", train.device, "cpu, cuda");
  part.add_option("--graph", train.graph, "On a device, launch each step as one graph")
      .completes(names_of(run::kGraphNames));
  part.add_option("--warmup", train.warmup, "Steps before measuring").range(0, 1'000'000);
}

void add_ops_options(Flags& part, run::BenchOpsOptions& ops) {
  part.add_option("--ops", ops.ops, "Only ops with a matching name, e.g. \"*norm\"");
  part.add_option("--dtype", ops.dtype, "f32 or bf16");
  part.add_flag("--tf32", ops.tf32, "On CUDA: f32 products and convolutions may use TF32");
  part.add_flag("--no-cudnn", ops.no_cudnn, "On CUDA: convolutions and attention without cuDNN");
  part.add_option("--threads", ops.threads, "Threads; 0: as many as the process may use")
      .range(0, kMostThreads);
  part.add_option("--kernels", ops.kernels, "How kernels are chosen, as in bench train")
      .completes(names_of(run::kKernelsByNames));
  part.add_option("--device", ops.device, "cpu, cuda");
  part.add_flag("--quick", ops.quick, "Small test samples, to see that every op runs");
}

std::function<Status()> setup_bench(Flags& flags) {
  auto options = std::make_shared<BenchOptions>();
  Flags pipeline_part = add_part(
      flags, "pipeline", "The input pipeline: reading, decoding and augmenting, without training", *options);
  add_loader_options(pipeline_part, options->loader);
  pipeline_part.add_option("--threads", options->loader.threads,
                           "Threads; 0: as many as the process may use");
  pipeline_part.add_option("--views", options->loader.views,
                           "Views of each image in a batch, augmented independently; rates count views");
  pipeline_part.add_option("--memory", options->memory,
                           "Maximum memory of the process, including batches and the dataset pages being "
                           "read, such as 1GiB; 0: no "
                           "limit");
  pipeline_part.add_option("--limit", options->loader.limit,
                           "Only N samples, drawn with --seed from the whole dataset; -1: all");
  pipeline_part.add_flag("--sequential", options->sequential,
                         "In the dataset's order instead of a shuffled one");

  Flags decode_part = add_part(flags, "decode", "Decoding alone, on one thread", *options);
  add_loader_options(decode_part, options->loader);

  Flags storage_part =
      add_part(flags, "storage", "Reading records of a dataset, in order and at random", *options);
  storage_part.add_option("DATA", options->loader.data, "Dataset, or a folder of splits (uses train)")
      .required();

  Flags train_part = add_part(flags, "train", "The training step on one cached batch", *options);
  add_train_options(train_part, options->train);

  Flags ops_part =
      add_part(flags, "ops", "Every op separately, compared with the machine's roofline", *options);
  add_ops_options(ops_part, options->ops);

  Flags copies_part = add_part(flags, "h2d", "Copies between host and device, by size", *options);
  copies_part.add_option("--device", options->device, "cuda, cuda:1, cpu");

  Flags run_part = add_part(flags, "run", "The forward pass of a compiled model", *options);
  run_part.add_option("MODEL", options->run.model, "Compiled model (.dlg), made by dlpipe compile")
      .required();
  run_part
      .add_option("--batch", options->run.batch,
                  "Samples per batch; 0: one, or as many as the model was compiled for")
      .range(0, 1'000'000);
  run_part.add_option("--threads", options->run.threads, "Threads; 0: as many as the process may use")
      .range(0, kMostThreads);
  run_part.add_option("--dtype", options->run.dtype, "f32 or bf16");
  run_part.add_option("--kernels", options->run.kernels, "How kernels are chosen, as in bench train")
      .completes(names_of(run::kKernelsByNames));
  flags.require_part();

  return [=]() -> Status {
    const StopText kept("; no measurement was completed");
    if (pipeline_part.parsed()) return bench_pipeline(*options);
    if (decode_part.parsed()) return bench_decode(*options);
    if (storage_part.parsed()) return bench_storage(*options);
    if (copies_part.parsed()) return bench_copies(*options);
    if (ops_part.parsed()) return bench_ops(*options);
    if (run_part.parsed()) return bench_run(*options);
    return bench_train(*options);
  };
}

}  // namespace

extern const CommandRecord bench_command;
const CommandRecord bench_command = {"bench",
                                     "Measure the input pipeline, decoding, storage, training steps, ops, "
                                     "copies to a device, or a compiled model",
                                     setup_bench};

}  // namespace dlpipe::cli
