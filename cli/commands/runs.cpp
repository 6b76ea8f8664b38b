// Commands on runs: `dlpipe doctor` finds the bottleneck of a run and what to try; `dlpipe diff` compares what two runs computed.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <tuple>

#include "base/machine.h"
#include "base/messages.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/output.h"
#include "dlpipe/config.h"
#include "dlpipe/dataset.h"
#include "dlpipe/models.h"
#include "io/formats/atomic_file.h"
#include "io/formats/json.h"
#include "run/bench/bench.h"
#include "run/input/dataset.h"
#include "run/input/path_kind.h"
#include "run/record/checkpoint.h"
#include "run/record/receipt.h"
#include "run/record/report.h"
#include "run/record/run_directory.h"

namespace dlpipe::cli {

namespace {

struct DoctorOptions {
  std::string run;
  bool json = false;
};

std::string layout_of(const data::Dataset& dataset) {
  if (dataset.size() == 0) return "";
  const auto header = dataset.header(0);
  return header.ok() ? std::string(data::image_layout_name(header->layout)) : "";
}

run::MachineFacts facts_of(const std::string& folder, const run::TrainConfig& config) {
  run::MachineFacts facts;
  facts.run = folder;
  facts.has_bf16 = cpu_isa().find("bf16") != std::string::npos;
  if (const auto data = run::training_data(config.data); data.ok()) {
    if (const auto dataset = data::Dataset::open(*data); dataset.ok())
      facts.dataset_layout = layout_of(**dataset);
  }
  if (const auto bad = formats::read_file(folder + "/quarantine.txt"); bad.ok()) {
    for (const std::string& line : split(*bad, '\n'))
      facts.quarantined_samples += line.empty() || line[0] == '#' ? 0 : 1;  // '#': names of the columns
  }
  facts.is_training = run::RunDirectory::is_in_use(folder);
  return facts;
}

std::string diagnosis_json(const run::Diagnosis& diagnosis) {
  using formats::Json;
  Json findings = Json::array();
  for (const run::Finding& finding : diagnosis.findings) {
    findings.push_back(
        Json::object({{"what", finding.what}, {"advice", finding.advice}, {"share", finding.share}}));
  }
  return Json::object({{"verdict", diagnosis.verdict}, {"findings", std::move(findings)}}).dump();
}

/// The command that measures the run's step separately; "" if `bench train` can't build its model or its input.
std::string bench_offer(const std::string& folder, const run::TrainConfig& config) {
  const std::string file = folder + "/checkpoints/last/state.json";
  const auto json = formats::read_json(file);
  if (!json.ok()) return "";
  const auto state = run::checkpoint_state_from_json(*json, file);
  if (!state.ok() || !state->model.graph.empty() || !engine::ModelRegistry::builtin().find(config.model).ok())
    return "";
  const engine::ModelArguments& model = state->model.arguments;
  const run::BenchTrainOptions kUsual;
  const bool takes_tokens = model.length > 0;
  if (!takes_tokens && model.height != model.width) return "";
  return concat(
      "; `dlpipe bench train --model ", shell_text(config.model), " --size ",
      takes_tokens ? model.length : model.height,
      takes_tokens || model.channels == kUsual.channels ? "" : concat(" --channels ", model.channels),
      " --classes ", model.classes, " --batch ", config.batch,
      config.dtype == kUsual.dtype ? "" : concat(" --dtype ", config.dtype), " --explain` measures each op");
}

Status examine(const DoctorOptions& options) {
  const auto ledger = formats::read_json(options.run + "/ledger.json");
  if (!ledger.ok()) {
    DLPIPE_RETURN_IF_ERROR(run::refuse_other_kind("doctor", options.run, run::Wanted::kRun));
    return ledger.status().with_context(concat("[doctor] ", options.run,
                                               " has no ledger; give the run directory of a `dlpipe train` "
                                               "that has trained for at least a second: "));
  }
  run::TrainConfig config;
  DLPIPE_RETURN_IF_ERROR(run::read_config(options.run + "/config.toml", config));
  DLPIPE_ASSIGN_OR_RETURN(const run::Diagnosis diagnosis,
                          run::diagnose(*ledger, config, facts_of(options.run, config)));
  if (options.json) {
    print_answer(diagnosis_json(diagnosis));
    return {};
  }
  print_answer(prose(diagnosis.verdict));
  for (const run::Finding& finding : diagnosis.findings)
    print_answer(prose(concat("- ", finding.what, "\n  ", finding.advice), 2));
  if (diagnosis.findings.empty())
    print_answer(prose(concat("no further findings", bench_offer(options.run, config))));
  return {};
}

std::function<Status()> setup_doctor(Flags& flags) {
  auto options = std::make_shared<DoctorOptions>();
  flags.add_option("RUN", options->run, "Run directory").required();
  flags.add_flag("--json", options->json, "Print one JSON line");
  return [options] { return examine(*options); };
}

// `dlpipe diff RUN RUN` compares two runs. Exit code 0 if they are equal, 1 if not.

struct DiffOptions {
  std::string first;
  std::string second;
  bool json = false;
};

void add_table(const char* head, const std::vector<run::ReceiptDifference>& differences, std::string& text) {
  if (differences.empty()) return;
  std::vector<std::vector<std::string>> rows = {{head, "first", "second"}};
  for (const run::ReceiptDifference& one : differences) rows.push_back({one.field, one.first, one.second});
  text += format_table(rows);
}

formats::Json pairs_json(const std::vector<run::ReceiptDifference>& differences) {
  formats::Json pairs = formats::Json::object();
  for (const run::ReceiptDifference& one : differences)
    pairs.set(one.field, formats::Json(formats::Json::Array{one.first, one.second}));
  return pairs;
}

/// Null if unknown.
formats::Json same_batches_json(const run::RunDifference& difference) {
  return difference.can_compare_batches() ? formats::Json(difference.same_batches()) : formats::Json();
}

std::string batches_text(const run::RunDifference& difference) {
  if (difference.can_compare_batches())
    return concat("batches ", difference.same_batches() ? "equal" : "differ");
  return "batches can't be compared (their hashes depend on --grains and --receipt, which differ)";
}

std::string difference_json(const run::RunDifference& difference) {
  using formats::Json;
  return Json::object({{"same", difference.same()},
                       {"same_batches", same_batches_json(difference)},
                       {"same_weights", difference.same_weights()},
                       {"first_different_step", difference.first_step},
                       {"beginning", difference.beginning == 0   ? Json()
                                     : difference.beginning == 1 ? Json("first")
                                                                 : Json("second")},
                       {"equal_weights_step", difference.weights_step},
                       {"options", pairs_json(difference.options)},
                       {"receipt", pairs_json(difference.receipt)}})
      .dump();
}

/// Says which run is the other's beginning, and how that is known.
std::string beginning_text(const run::RunDifference& difference, const DiffOptions& options) {
  const bool is_first = difference.beginning == 1;
  const std::string& shorter = is_first ? options.first : options.second;
  const std::string& longer = is_first ? options.second : options.first;
  const std::string end = human_count(difference.end_step);
  if (difference.is_known_beginning())
    return concat(shorter, " is the beginning of ", longer, ": up to its last step, ", end,
                  ", losses and weights are equal, bit for bit");
  return concat(shorter, " may be the beginning of ", longer, ": up to its last step, ", end,
                ", all losses are equal; ",
                difference.weights_step >= 0
                    ? concat("the weights are equal after step ", human_count(difference.weights_step),
                             ", the last step at which both runs recorded them")
                    : "the weights can't be compared, because the runs did not record them at the same step");
}

/// Whether the field differs because one run is longer.
bool is_of_length(const run::ReceiptDifference& difference) {
  const auto is = [&](const char* field) { return difference.field == field; };
  return is("steps") || is("samples") || is("finished") || is("batches_chain") || is("parameters_chain");
}

std::string kernels_text(const run::RunDifference& difference, const DiffOptions& options) {
  if (!difference.by_rules[0] && !difference.by_rules[1])
    return "the runs measured different kernels as the fastest";
  const auto& [rules, measured] = difference.by_rules[0] ? std::tie(options.first, options.second)
                                                         : std::tie(options.second, options.first);
  return concat(rules, " chose its kernels by rules, ", measured, " by measuring");
}

std::string difference_report(const run::RunDifference& difference, const DiffOptions& options) {
  if (difference.same()) return "the same run: batches, losses and weights are equal, bit for bit";
  const bool is_beginning = difference.beginning != 0;
  std::vector<run::ReceiptDifference> receipt = difference.receipt;
  if (is_beginning) std::erase_if(receipt, is_of_length);
  std::string text = concat(is_beginning ? prose(beginning_text(difference, options))
                                         : concat(batches_text(difference), ", weights ",
                                                  difference.same_weights() ? "equal" : "differ"),
                            "\n");
  add_table("option", difference.options, text);
  add_table("receipt", receipt, text);
  if (difference.has_measured_otherwise())
    text += prose(concat(
        kernels_text(difference, options),
        ", which may change the last bits; with --kernels rules, kernels depend only on the shapes\n"));
  if (difference.first_step >= 0 && !is_beginning) {
    text += concat("metrics differ from step ", difference.first_step, " on:\n  ", difference.first_line,
                   "\n  ", difference.second_line, "\n");
  }
  return text;
}

Status compare(const DiffOptions& options) {
  const run::RunDifference difference = value_or_throw(run::compare_runs(options.first, options.second));
  if (options.json)
    print_answer(difference_json(difference));
  else
    print_answer(difference_report(difference, options));
  if (difference.same()) return {};
  return {ErrorCode::kChanged,
          concat("[diff] ", options.first, " and ", options.second, " are not the same run",
                 difference.beginning != 0 ? ": one of them is longer" : "")};
}

std::function<Status()> setup_diff(Flags& flags) {
  auto options = std::make_shared<DiffOptions>();
  flags.add_option("FIRST", options->first, "Run directory").required();
  flags.add_option("SECOND", options->second, "Run directory").required();
  flags.add_flag("--json", options->json, "Print one JSON line");
  return [options] { return compare(*options); };
}

}  // namespace

extern const CommandRecord doctor_command;
const CommandRecord doctor_command = {"doctor", "Find the bottleneck of a run, and what to try",
                                      setup_doctor};

extern const CommandRecord diff_command;
const CommandRecord diff_command = {"diff", "Compare two runs by their receipts", setup_diff};

}  // namespace dlpipe::cli
