// `dlpipe train` trains a model on a dataset into a run directory; `--resume RUN` continues one. `dlpipe crossval` does so for each fold of a
// dataset, `dlpipe launch --np 4 -- train ...` in several processes, with mpirun.
#include <algorithm>
#include <cctype>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <thread>

#include "base/machine.h"
#include "base/messages.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/command_line.h"
#include "cli/help.h"
#include "cli/output.h"
#include "cli/signals.h"
#include "cli/train_view.h"
#include "dlpipe/config.h"
#include "dlpipe/dataset.h"
#include "dlpipe/error.h"
#include "dlpipe/session.h"
#include "engine/collective/collective.h"
#include "engine/collective/launched.h"
#include "io/formats/json.h"
#include "run/config/choices.h"
#include "run/config/config.h"
#include "run/input/dataset.h"
#include "run/input/path_kind.h"
#include "run/record/run_directory.h"
#include "run/train/launch.h"
#include "run/train/outcome.h"
#include "run/use/graph_model.h"

namespace dlpipe::cli {

namespace {

using formats::Json;
using run::ConfigOption;
using run::TrainConfig;

std::string value_name(const ConfigOption& option) {
  const std::string_view type = run::option_type(option);
  return type == "INT" ? "N" : type == "FLOAT" ? "X" : type == "TEXT" ? "TEXT" : "LIST";
}

/// Values for completion: those of "--model" are the names that `--help models` lists.
std::vector<std::string> known_values(const ConfigOption& option) {
  if (!option.choices.empty()) return option.choices;
  for (const HelpTopic& topic : help_topics()) {
    if (std::string_view(topic.option) == option.name) return topic.words();
  }
  return {};
}

/// "Decay of biases" -> "No decay of biases".
std::string without(std::string help) {
  help[0] = static_cast<char>(std::tolower(help[0]));
  return "No " + help;
}

// Both directions can be given, because a config file may set either; help shows the one that isn't the default.
void add_switch(Flags& flags, const std::string& name, const std::string& help, bool is_on,
                const std::string& group, const std::shared_ptr<run::GivenOptions>& given) {
  const auto set = [given, name](bool value) { given->emplace_back(name, value ? "true" : "false"); };
  const std::string yes = concat("--", name), no = concat("--no-", name);
  flags.add_switch(yes, no, set, is_on ? without(help) : help, !is_on).group(group);
}

/// Adds one flag per row of the option table of run/config, with its default and group. `given` receives the given options, in order.
void add_config_flags(Flags& flags, const std::shared_ptr<run::GivenOptions>& given) {
  const TrainConfig defaults;
  for (const ConfigOption& option : run::config_options()) {
    const std::string name = option.name;
    std::string group = option.group;
    group[0] = static_cast<char>(std::toupper(group[0]));
    const std::string by_choice = run::choice_defaults(option);
    const std::string help =
        by_choice.empty() ? std::string(option.help) : concat(option.help, "; default ", by_choice);
    if (run::is_switch(option)) {
      add_switch(flags, name, help, run::option_text(option, defaults) == "true", group, given);
      continue;
    }
    const auto set = [given, name](const std::string& text) { given->emplace_back(name, text); };
    // The dataset is a positional word, or --data.
    const std::string flag = name == "data" ? "DATA" : concat("--", name);
    flags.add_setter(flag, set, help, run::option_text(option, defaults), value_name(option) == "LIST")
        .type_name(value_name(option))
        .completes(known_values(option))
        .group(group);
  }
}

// train

struct TrainOptions {
  std::string config_file;
  std::string resume;
  bool json = false;
  std::shared_ptr<run::GivenOptions> given = std::make_shared<run::GivenOptions>();
};

/// From the flags, the config file or the resumed run.
double peer_timeout(const TrainOptions& options) {
  const std::string file = options.resume.empty() ? options.config_file : options.resume + "/config.toml";
  run::TrainConfig config;
  if (!file.empty()) throw_if_error(run::read_config(file, config));
  for (const auto& [name, text] : *options.given) {
    if (name == "peer-timeout") throw_if_error(run::set_option(*run::find_config_option(name), text, config));
  }
  return config.peer_timeout;
}

/// The processes that mpirun started together; null if this is the only one.
std::unique_ptr<engine::Collective> open_ranks(const TrainOptions& options) {
  const engine::LaunchedRank launched = value_or_throw(engine::launched_rank());
  if (launched.world == 1) return nullptr;
  const double timeout_s = peer_timeout(options);
  return value_or_throw(
      engine::Collective::create([&] { return engine::open_transport(launched, timeout_s); }));
}

/// `view` is null if another process prints.
std::unique_ptr<run::Session> open_session(const TrainOptions& options, TrainView* view,
                                           engine::Collective* ranks) {
  if (!options.resume.empty()) return run::Session::resume(options.resume, *options.given, {}, view, ranks);
  const run::TrainConfig config = run::read_options(
      options.config_file, *options.given,
      [&](const std::string& line) {
        if (view != nullptr) view->on_note(line);
      },
      run::output_of_file);
  if (config.out.empty() && config.overfit_batch == 0) {
    refuse("train", "no run directory; give --out runs/NAME");
  }
  return std::make_unique<run::Session>(config, run::Registries{}, view, ranks);
}

/// The planned and the used memory. A plan covers the steps. A first run needs some tens of megabytes more to find its fastest kernels,
/// regardless of the model, so no percentage is shown for a small plan.
std::string memory_line(uint64_t taken, uint64_t planned) {
  constexpr uint64_t kSmall = 256 << 20;
  constexpr double kNear = 0.1;
  const double off = static_cast<double>(taken) / static_cast<double>(planned) - 1;
  std::string line = concat("memory: ", human_bytes(taken), " at most, planned ", human_bytes(planned));
  if (planned >= kSmall) {
    line += concat(" (", off >= 0 ? "+" : "", fixed(100 * off, 1), " %",
                   off > kNear ? ": the plan was too low" : "", ")");
  }
  return line + "\n";
}

/// Samples per second, without start, validations and checkpoints, as in the progress line.
double training_rate(const run::TrainOutcome& outcome) {
  return static_cast<double>(outcome.samples) / (static_cast<double>(outcome.ledger.training_ns()) * 1e-9);
}

std::string shares_line(const char* what, const std::vector<int64_t>& by_process) {
  int64_t all = 0;
  for (const int64_t bytes : by_process) all += bytes;
  const auto [least, most] = std::minmax_element(by_process.begin(), by_process.end());
  return concat(what, ": ", human_bytes(static_cast<uint64_t>(*least)), " to ",
                human_bytes(static_cast<uint64_t>(*most)), " in each of ", by_process.size(), " processes, ",
                human_bytes(static_cast<uint64_t>(all)), " in all\n");
}

std::string result_lines(const run::TrainOutcome& outcome, const run::TrainConfig& config) {
  std::string text =
      outcome.samples == 0
          ? outcome.steps == 0
                ? std::string("no steps were requested: these are the initial weights\n")
                : concat("nothing left to train: the run is at step ", human_count(outcome.steps), "\n")
          : concat(counted(outcome.steps, "step"), "; this session ",
                   human_seconds(static_cast<double>(outcome.ledger.wall_ns) * 1e-9), ", ",
                   counted(outcome.samples, "sample"), ", ", fixed(training_rate(outcome), 1),
                   " samples/s in training itself\n");
  if (outcome.best_step >= 0) {
    text += concat("best ", config.metrics.empty() ? engine::kLossMetric : config.metrics.front(), " ",
                   fixed(outcome.best, 4), " at step ", human_count(outcome.best_step), "\n");
  }
  if (outcome.samples > 0 && !config.record.contains("val-id"))
    text +=
        "not validated: the quality of the model on new data is unknown; give a validation set with --val\n";
  if (outcome.skipped_steps > 0)
    text += concat(counted(outcome.skipped_steps, "step was", "steps were"), " skipped: not finite\n");
  if (outcome.loss_scale > 0) {
    text += concat("loss scale ", fixed(outcome.loss_scale, outcome.loss_scale < 1 ? 6 : 0), "; ",
                   counted(outcome.overflowed_steps, "step was", "steps were"), " skipped to reduce it\n");
  }
  if (const int64_t bad = outcome.stats.substituted; bad > 0) {
    text += concat(counted(bad, "bad sample was", "bad samples were"), " replaced by others",
                   config.out.empty() ? "" : concat(": ", config.out, "/quarantine.txt"), "\n");
  }
  if (outcome.early_stopped) text += "stopped early: validation did not improve\n";
  if (outcome.memory_plan.total() > 0 && outcome.samples > 0) {
    text += memory_line(outcome.memory_bytes, outcome.memory_plan.total());
  }
  if (!outcome.optimizer_bytes.empty()) text += shares_line("optimizer's state", outcome.optimizer_bytes);
  if (!outcome.gradient_bytes.empty() && outcome.samples > 0)
    text += shares_line("summed gradients", outcome.gradient_bytes);
  if (!config.out.empty()) text += concat("run directory ", config.out, "\n");
  return text;
}

void print_result(const run::TrainOutcome& outcome, const run::TrainConfig& config) {
  if (outcome.samples > 0) {
    print_answer(stage_table(outcome.stages()));
    print_answer(ledger_table(run::report_ledger(outcome.ledger),
                              outcome.first_step == 0 ? "the whole run" : "this session"));
  }
  if (outcome.device.steps > 0) print_answer(device_table(outcome.device));
  print_answer(prose(result_lines(outcome, config)));
}

// `--overfit-batch`: if a model can't learn one batch by heart, the model or its input is wrong.
Status judge_overfit(const run::TrainOutcome& outcome, const run::TrainConfig& config, bool json) {
  print_answer(json ? run::outcome_json(outcome, config, given_warnings()).dump()
                    : concat("one batch, ", counted(outcome.steps, "step"), ": loss ",
                             fixed(outcome.first_loss, 4), " -> ", fixed(outcome.loss, 4)));
  if (run::is_learnt(outcome)) return {};
  return {
      ErrorCode::kUnsupported,
      concat("[train] the model did not memorise the batch: its loss ended at ",
             fixed(100 * outcome.loss / outcome.first_loss, 0),
             " % of its initial value; try more steps or another --lr, or check the labels and the model")};
}

Status train_on(const TrainOptions& options, engine::Collective* ranks) {
  const bool prints = ranks == nullptr || ranks->rank() == 0;
  TrainView view;
  const auto session = open_session(options, prints ? &view : nullptr, ranks);
  session->count_time_from(process_begin_ns());
  const run::TrainOutcome outcome = session->train(catch_stop_signals(ranks != nullptr));
  view.end_line();
  if (ranks != nullptr) throw_if_error(ranks->close());
  run::TrainConfig config = session->config();
  if (config.overfit_batch > 0) config.out.clear();  // it is left out
  if (!prints) return outcome.stopped ? Status(ErrorCode::kCancelled, "") : Status();
  if (config.overfit_batch > 0 && !outcome.stopped) return judge_overfit(outcome, config, options.json);
  if (options.json)
    print_answer(run::outcome_json(outcome, config, given_warnings()).dump());
  else
    print_result(outcome, config);
  if (!outcome.stopped) return {};
  return {ErrorCode::kCancelled,
          concat("[train] stopped by a signal after step ", outcome.steps,
                 config.out.empty()
                     ? std::string("; nothing is saved")
                     : concat("; saved; resume with: dlpipe train --resume ", shell_word(config.out)))};
}

/// How long other ranks wait, so that the first rank can report the error before the launcher notices a failed rank and ends it. The
/// launcher doesn't wait that long: it ends the others when the first rank ends.
constexpr std::chrono::seconds kWord{3};

/// Whether another rank reports the error: all ranks fail if one does, and one of them reports it.
bool is_said_by_another(const Error& error, const engine::Collective& ranks) {
  return error.status().message().empty() || (ranks.was_told() || error.code() == ErrorCode::kNonfinite);
}

Status train(const TrainOptions& options) {
  if (!run::is_kind(options.config_file, run::Wanted::kRawData))  // a config file may have any name
    DLPIPE_RETURN_IF_ERROR(run::refuse_other_kind("train", options.config_file, run::Wanted::kOptions));
  const std::unique_ptr<engine::Collective> ranks = open_ranks(options);
  if (ranks == nullptr) return train_on(options, nullptr);
  try {
    return train_on(options, ranks.get());
  } catch (const Error& error) {
    // An empty message means that all ranks have agreed to stop. The first may not know yet: wait for it, don't abort it.
    if (error.status().message().empty())
      (void)ranks->close();
    else
      ranks->abort(error.what());
    if (ranks->rank() == 0) throw;
    std::this_thread::sleep_for(kWord);
    if (is_said_by_another(error, *ranks)) return Status(error.code(), "");
    throw;
  }
}

std::function<Status()> setup_train(Flags& flags) {
  auto options = std::make_shared<TrainOptions>();
  const Flag config = flags
                          .add_option("--config", options->config_file,
                                      "TOML file with options by these names. Flags override it. Its paths "
                                      "are relative to the current folder, as on the command line")
                          .type_name("FILE")
                          .not_empty();
  flags
      .add_option("--resume", options->resume,
                  concat("Continue this run, with its original options. These may change: "
                         "--data and --val (the same dataset in another place), --epochs and --max-steps (if "
                         "past learning rates stay the same), ",
                         run::free_option_names()))
      .type_name("RUN")
      .not_empty()
      .excludes(config);
  flags.add_flag("--json", options->json, "Print one JSON line at the end, instead of tables");
  add_config_flags(flags, options->given);
  flags.show_first({"--config", "--resume", "--model", "--init", "--augment", "--epochs", "--batch", "--lr",
                    "--optimizer", "--weight-decay", "--schedule", "--dtype", "--device", "--threads",
                    "--out"});
  flags.footer("Lists: dlpipe --help ops | models | optimizers | schedules | tasks | losses | metrics");
  return [options] { return train(*options); };
}

// `dlpipe crossval` trains a run for each fold of a dataset, and averages what they reach.

constexpr const char* kCrossvalFile = "crossval.json";

/// What a run reached at its end, on its fold.
Json fold_json(const std::string& fold, const std::string& run, const run::EvalReport& result) {
  Json metrics = Json::object({{std::string(engine::kLossMetric), result.loss}});
  for (const auto& [name, value] : result.metrics) metrics.set(name, value);
  return Json::object(
      {{"fold", fold}, {"run", run}, {"samples", result.samples}, {"metrics", std::move(metrics)}});
}

/// The options as given, "name text" each, in the order of their names: those that all folds share.
Json options_json(const TrainOptions& options) {
  std::map<std::string, std::string> given;
  if (!options.config_file.empty()) given["config"] = options.config_file;
  for (const auto& [name, text] : *options.given) given[name] = text;
  Json all = Json::array();
  for (const auto& [name, text] : given) all.push_back(concat(name, " ", text));
  return all;
}

/// "--lr 0.1" for each of `options` that is not among `others`; "" for none.
std::string only_in(const Json& options, const Json& others) {
  std::string text;
  for (const Json& option : options.items())
    if (std::ranges::find(others.items(), option) == others.items().end())
      text += concat(text.empty() ? "--" : " --", option.as_string());
  return text;
}

/// The folds that an earlier call of the same `made_of` has finished. kMisuse if OUT holds anything else.
Json finished_folds(const std::string& out, const Json& made_of) {
  const std::string file = concat(out, "/", kCrossvalFile);
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) {
    if (std::filesystem::is_directory(out, ignored) && !std::filesystem::is_empty(out, ignored))
      refuse("crossval", "--out ", printable(out), " is not empty and has no ", kCrossvalFile,
             "; give another --out");
    return Json::array();
  }
  const Json json = value_or_throw(formats::read_json(file));
  if (json["data_id"] != made_of["data_id"])
    refuse("crossval", file, " belongs to another dataset; give the same dataset, or another --out");
  const std::string was = only_in(json["options"], made_of["options"]),
                    is = only_in(made_of["options"], json["options"]);
  if (!was.empty() || !is.empty())
    refuse("crossval", file, " was begun with other options: ", was.empty() ? "none" : printable(was),
           " there, ", is.empty() ? "none" : printable(is), " here; give the same options, or another --out");
  return json["folds"];
}

/// The folds of `dataset`. kMisuse if one of them can't be trained, before any is.
std::vector<run::Fold> trainable_folds(const data::Dataset& dataset) {
  constexpr size_t kMostBytes = 100;
  std::vector<run::Fold> folds = value_or_throw(run::folds_of(dataset, "crossval"));
  for (const run::Fold& fold : folds)
    if (fold.value.size() > kMostBytes || fold.value.find('/') != std::string::npos)
      refuse("crossval", "the fold ", in_quotes(fold.value),
             " can't be the name of a folder; number the folds");
  return folds;
}

/// Mean and standard deviation (of a sample) of each metric over `folds`.
std::pair<Json, Json> mean_and_deviation(const Json& folds) {
  Json means = Json::object(), deviations = Json::object();
  for (const auto& [name, unused] : folds.items().front()["metrics"].members()) {
    double sum = 0, squares = 0, count = 0;
    for (const Json& fold : folds.items()) {
      const Json& value = fold["metrics"][name];
      if (!value.is_number()) continue;  // no sample of the fold has this figure
      sum += value.as_double();
      ++count;
    }
    for (const Json& fold : folds.items())
      if (fold["metrics"][name].is_number())
        squares += std::pow(fold["metrics"][name].as_double() - sum / count, 2);
    means.set(name, sum / count);  // NaN, null in JSON: no fold has it
    deviations.set(name, std::sqrt(squares / (count - 1)));
  }
  return {std::move(means), std::move(deviations)};
}

std::string folds_table(const Json& folds, const Json& means, const Json& deviations) {
  std::vector<std::vector<std::string>> rows = {{"fold", "samples"}};
  for (const auto& [name, unused] : means.members()) rows.front().push_back(name);
  const auto add = [&](const std::string& title, const std::string& samples, const Json& metrics) {
    auto& row = rows.emplace_back(std::vector<std::string>{title, samples});
    for (const auto& [name, value] : metrics.members())
      row.push_back(metric_text(
          name, value.is_number() ? value.as_double() : std::numeric_limits<double>::quiet_NaN()));
  };
  for (const Json& fold : folds.items())
    add(fold["fold"].as_string(), human_count(fold["samples"].as_int()), fold["metrics"]);
  add("mean", "", means);
  add("std", "", deviations);
  return format_table(rows);
}

/// The run of one fold, begun or resumed; nothing if a signal stopped it.
std::optional<run::EvalReport> train_fold(const TrainOptions& options, const std::string& run,
                                          const std::string& fold) {
  TrainOptions own = options;
  std::error_code ignored;
  if (std::filesystem::exists(run + "/config.toml", ignored)) {
    own.resume = run;
    own.given = std::make_shared<run::GivenOptions>();
  } else {
    own.given = std::make_shared<run::GivenOptions>(*options.given);
    own.given->emplace_back("fold", fold);
    own.given->emplace_back("out", run);
  }
  TrainView view;
  const auto session = open_session(own, &view, nullptr);
  const run::TrainOutcome outcome = session->train(catch_stop_signals());
  view.end_line();
  if (outcome.stopped) return std::nullopt;
  if (outcome.last_validation) return outcome.last_validation->result;
  auto logged = run::logged_end(run).validation;
  if (!logged) refuse("crossval", run, " ended without a validation; remove it and start again");
  return logged;
}

Status crossval(const TrainOptions& options) {
  const TrainConfig config = run::read_options(options.config_file, *options.given, {}, run::output_of_file);
  if (config.out.empty()) refuse("crossval", "no directory for the runs; give --out runs/NAME");
  if (!config.fold.empty()) refuse("crossval", "it trains all folds; leave --fold out");
  if (config.val_every == "never") refuse("crossval", "it compares validations; leave --val-every never out");
  const auto dataset = value_or_throw(data::Dataset::open(value_or_throw(run::training_data(config.data))));
  const std::string file = concat(config.out, "/", kCrossvalFile);
  const std::vector<run::Fold> all = trainable_folds(*dataset);
  Json made = Json::object({{"options", options_json(options)}, {"data_id", dataset->id()}});
  Json folds = finished_folds(config.out, made);
  std::filesystem::create_directories(config.out);
  throw_if_error(formats::write_json(file, made.set("folds", folds)));
  for (const run::Fold& fold : all) {
    const bool is_done = std::ranges::any_of(
        folds.items(), [&](const Json& done) { return done["fold"].as_string() == fold.value; });
    if (is_done) continue;
    const std::string run = concat(config.out, "/fold-", fold.value);
    const auto result = train_fold(options, run, fold.value);
    if (!result)
      return {ErrorCode::kCancelled,
              concat("[crossval] stopped by a signal in fold ", fold.value, "; the same command continues")};
    folds.push_back(fold_json(fold.value, run, *result));
    throw_if_error(formats::write_json(file, made.set("folds", folds)));
  }
  const auto [means, deviations] = mean_and_deviation(folds);
  if (options.json)
    print_answer(
        Json::object({{"out", config.out}, {"folds", folds}, {"mean", means}, {"std", deviations}}).dump());
  else
    print_answer(folds_table(folds, means, deviations));
  return {};
}

std::function<Status()> setup_crossval(Flags& flags) {
  auto options = std::make_shared<TrainOptions>();
  flags.add_option("--config", options->config_file, "TOML file with options of train by these names")
      .type_name("FILE")
      .not_empty();
  flags.add_flag("--json", options->json, "Print one JSON line at the end, instead of a table");
  add_config_flags(flags, options->given);
  flags.show_first({"--config", "--model", "--init", "--augment", "--epochs", "--batch", "--lr", "--out"});
  flags.footer(
      "DATA has a field `fold`, which `dlpipe ingest SRC DATA --folds 5` adds. The runs are OUT/fold-N; the "
      "same "
      "command continues after a stop. The figures are those of each run's last validation");
  return [options] { return crossval(*options); };
}

// `dlpipe launch --np 4 -- train ...` trains in several processes, with mpirun.

/// `-- --quiet train ...` as `train --quiet ...`.
void put_command_first(std::vector<std::string>& words) {
  const auto command = words.begin() + static_cast<std::ptrdiff_t>(command_place(words));
  if (command != words.end()) std::rotate(words.begin(), command, command + 1);
}

std::function<Status()> setup_launch(Flags& flags) {
  auto options = std::make_shared<run::LaunchOptions>();
  auto more = std::make_shared<std::string>();
  flags
      .add_option("COMMAND", options->arguments,
                  "After --: train and its options, including --out or --resume")
      .required();
  flags.add_option("--np", options->processes, "Processes, a power of two; -np is the same");
  flags.add_flag("--elastic", options->elastic,
                 "When a process is lost, continue from the last checkpoint with half as many processes");
  flags.add_option("--min-np", options->fewest,
                   "With --elastic: give up when fewer processes than this are left");
  flags.add_option("--mpirun", options->mpirun, "The launcher, Open MPI's mpirun").type_name("FILE");
  flags.add_option("--mpirun-args", *more, "Arguments for mpirun, such as \"--hostfile hosts\"");
  flags.footer("Ctrl-C or SIGTERM: all processes save and stop, and the exit code is 3");
  return [options, more] {
    for (const std::string& word : split(*more, ' ')) {
      if (!word.empty()) options->mpirun_arguments.emplace_back(word);
    }
    put_command_first(options->arguments);
    options->program = std::filesystem::read_symlink("/proc/self/exe").string();
    return run::launch(*options, catch_stop_signals(), [](const std::string& text) { print_warning(text); });
  };
}

}  // namespace

extern const CommandRecord train_command;
const CommandRecord train_command = {"train", "Train a model on a dataset", setup_train};

extern const CommandRecord crossval_command;
const CommandRecord crossval_command = {"crossval", "Train a run for each fold of a dataset", setup_crossval};

extern const CommandRecord launch_command;
const CommandRecord launch_command = {"launch", "Train in several processes, with mpirun", setup_launch};

}  // namespace dlpipe::cli
