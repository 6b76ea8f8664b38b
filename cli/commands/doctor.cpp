// `dlpipe doctor RUN`: who waited for whom in a run, and what to try.
#include "dlpipe/run/record/doctor.h"

#include <algorithm>
#include <filesystem>
#include <memory>

#include "dlpipe/base/machine.h"
#include "dlpipe/base/shell_word.h"
#include "dlpipe/base/text.h"
#include "dlpipe/cli/command.h"
#include "dlpipe/cli/flags.h"
#include "dlpipe/cli/output.h"
#include "dlpipe/engine/models/model.h"
#include "dlpipe/io/data/dataset.h"
#include "dlpipe/io/formats/atomic_file.h"
#include "dlpipe/run/bench/bench_train.h"
#include "dlpipe/run/config/config.h"
#include "dlpipe/run/input/data_paths.h"
#include "dlpipe/run/input/path_kind.h"
#include "dlpipe/run/record/checkpoint.h"
#include "dlpipe/run/record/run_directory.h"

namespace dlpipe::cli {

namespace {

struct Options {
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
      facts.quarantined_samples += line.empty() || line[0] == '#' ? 0 : 1;  // '#': the columns' names
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

/// The run's own step, measured apart; "" where `bench train` can't build its model or its input.
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
      "; `dlpipe bench train --model ", shell_word(config.model), " --size ",
      takes_tokens ? model.length : model.height,
      takes_tokens || model.channels == kUsual.channels ? "" : concat(" --channels ", model.channels),
      " --classes ", model.classes, " --batch ", config.batch,
      config.dtype == kUsual.dtype ? "" : concat(" --dtype ", config.dtype), " --explain` looks at each op");
}

Status examine(const Options& options) {
  const auto ledger = formats::read_json(options.run + "/ledger.json");
  if (!ledger.ok()) {
    DLPIPE_RETURN_IF_ERROR(run::refuse_other_kind("doctor", options.run, run::Wanted::kRun));
    return ledger.status().with_context(
        concat("[doctor] ", options.run,
               " has no ledger: give the --out of a `dlpipe train` that has trained for a second: "));
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
    print_answer(prose(concat("nothing else stands out", bench_offer(options.run, config))));
  return {};
}

std::function<Status()> setup(Flags& flags) {
  auto options = std::make_shared<Options>();
  flags.add_option("RUN", options->run, "Run directory").required();
  flags.add_flag("--json", options->json, "Print one JSON line");
  return [options] { return examine(*options); };
}

}  // namespace

extern const CommandRecord doctor_command;
const CommandRecord doctor_command = {"doctor", "Say who waited for whom in a run, and what to try", setup};

}  // namespace dlpipe::cli
