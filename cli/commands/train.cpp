// `dlpipe train`: a dataset and a model to a run directory; `--resume RUN` goes on with one.
#include <algorithm>
#include <chrono>
#include <thread>

#include "dlpipe/base/machine.h"
#include "dlpipe/base/refuse.h"
#include "dlpipe/base/shell_word.h"
#include "dlpipe/base/text.h"
#include "dlpipe/cli/command.h"
#include "dlpipe/cli/config_flags.h"
#include "dlpipe/cli/flags.h"
#include "dlpipe/cli/output.h"
#include "dlpipe/cli/stop_signal.h"
#include "dlpipe/cli/train_view.h"
#include "dlpipe/engine/collective/collective.h"
#include "dlpipe/engine/collective/launched.h"
#include "dlpipe/run/config/given_options.h"
#include "dlpipe/run/input/path_kind.h"
#include "dlpipe/run/train/outcome_json.h"
#include "dlpipe/run/train/session.h"

namespace dlpipe::cli {

namespace {

struct Options {
  std::string config_file;
  std::string resume;
  bool json = false;
  std::shared_ptr<GivenOptions> given = std::make_shared<GivenOptions>();
};

/// As flags, the config file or the run that goes on have it.
double peer_timeout(const Options& options) {
  const std::string file = options.resume.empty() ? options.config_file : options.resume + "/config.toml";
  run::TrainConfig config;
  if (!file.empty()) throw_if_error(run::read_config(file, config));
  for (const auto& [name, text] : *options.given) {
    if (name == "peer-timeout") throw_if_error(run::set_option(*run::find_config_option(name), text, config));
  }
  return config.peer_timeout;
}

/// The processes that mpirun started together; null: this one is alone.
std::unique_ptr<engine::Collective> open_ranks(const Options& options) {
  const engine::LaunchedRank launched = value_or_throw(engine::launched_rank());
  if (launched.world == 1) return nullptr;
  const double timeout_s = peer_timeout(options);
  return value_or_throw(
      engine::Collective::create([&] { return engine::open_transport(launched, timeout_s); }));
}

/// `view` null: another process prints.
std::unique_ptr<run::Session> open_session(const Options& options, TrainView* view,
                                           engine::Collective* ranks) {
  if (!options.resume.empty()) return run::Session::resume(options.resume, *options.given, {}, view, ranks);
  const run::TrainConfig config =
      run::read_options(options.config_file, *options.given, [&](const std::string& line) {
        if (view != nullptr) view->on_note(line);
      });
  if (config.out.empty() && config.overfit_batch == 0) {
    refuse("train", "no run directory; give --out runs/NAME");
  }
  return std::make_unique<run::Session>(config, run::Registries{}, view, ranks);
}

/// What was planned and what was taken. A plan is of the steps: what a first run takes beside them, to find its
/// fastest kernels, is some tens of megabytes whatever the model, so a small plan claims no percentage.
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

/// Without start, validations and checkpoints, as the progress line shows it.
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
                ? std::string("no step was asked for: these are the initial weights\n")
                : concat("nothing was left to train: the run is at step ", human_count(outcome.steps), "\n")
          : concat(human_count(outcome.steps), outcome.steps == 1 ? " step" : " steps", "; this session ",
                   human_seconds(static_cast<double>(outcome.ledger.wall_ns) * 1e-9), ", ",
                   human_count(outcome.samples), " samples, ", fixed(training_rate(outcome), 1),
                   " samples/s in training itself\n");
  if (outcome.best_step >= 0) {
    text += concat("best ", config.metrics.empty() ? engine::kLossMetric : config.metrics.front(), " ",
                   fixed(outcome.best, 4), " at step ", human_count(outcome.best_step), "\n");
  }
  if (outcome.samples > 0 && !config.record.contains("val-id"))
    text +=
        "not validated: nothing says how well the model does on other data than it was trained on; --val "
        "takes some\n";
  if (outcome.skipped_steps > 0) text += concat(outcome.skipped_steps, " steps were skipped: not finite\n");
  if (outcome.loss_scale > 0) {
    text += concat("loss scale ", fixed(outcome.loss_scale, outcome.loss_scale < 1 ? 6 : 0), "; ",
                   outcome.overflowed_steps, " steps were skipped to make it smaller\n");
  }
  if (const int64_t bad = outcome.stats.substituted; bad > 0) {
    text +=
        concat(human_count(bad), bad == 1 ? " bad sample was" : " bad samples were", " replaced by others",
               config.out.empty() ? "" : concat(": ", config.out, "/quarantine.txt"), "\n");
  }
  if (outcome.early_stopped) text += "stopped early: validation did not get better\n";
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
    print_answer(ledger_table(run::report_ledger(outcome.ledger)));
  }
  if (outcome.device.steps > 0) print_answer(device_table(outcome.device));
  print_answer(prose(result_lines(outcome, config)));
}

// `--overfit-batch`: a net that can't learn one batch by heart is built or fed wrongly.
Status judge_overfit(const run::TrainOutcome& outcome, const run::TrainConfig& config, bool json) {
  print_answer(json ? run::outcome_json(outcome, config, given_warnings()).dump()
                    : concat("one batch, ", outcome.steps, " steps: loss ", fixed(outcome.first_loss, 4),
                             " -> ", fixed(outcome.loss, 4)));
  if (run::is_learnt(outcome)) return {};
  return {ErrorCode::kUnsupported,
          concat("[train] the batch was not learnt by heart: its loss fell to ",
                 fixed(100 * outcome.loss / outcome.first_loss, 0),
                 " % of its start; try more steps, another --lr, or look at labels and model")};
}

Status train_on(const Options& options, engine::Collective* ranks) {
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
                     : concat("; saved; go on with: dlpipe train --resume ", shell_word(config.out)))};
}

/// For the first rank to say what happened, before the launcher sees that another has failed and ends it. The launcher
/// doesn't wait so long: it ends the others when the first rank does.
constexpr std::chrono::seconds kWord{3};

/// All ranks fail where one does: one of them says it.
bool is_said_by_another(const Error& error, const engine::Collective& ranks) {
  return error.status().message().empty() || (ranks.was_told() || error.code() == ErrorCode::kNonfinite);
}

Status train(const Options& options) {
  if (!run::is_kind(options.config_file, run::Wanted::kRawData))  // a name may end in anything
    DLPIPE_RETURN_IF_ERROR(run::refuse_other_kind("train", options.config_file, run::Wanted::kOptions));
  const std::unique_ptr<engine::Collective> ranks = open_ranks(options);
  if (ranks == nullptr) return train_on(options, nullptr);
  try {
    return train_on(options, ranks.get());
  } catch (const Error& error) {
    // Without a message all ranks have agreed to stop. The first may not know it yet: it is waited for, not told.
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

std::function<Status()> setup(Flags& flags) {
  auto options = std::make_shared<Options>();
  const Flag config = flags
                          .add_option("--config", options->config_file,
                                      "TOML file with options by these names. Flags override it. Its paths "
                                      "are relative to the current folder, as on the command line")
                          .type_name("FILE")
                          .not_empty();
  flags
      .add_option("--resume", options->resume,
                  concat("Go on with this run, with the options that it was begun with. These may change: "
                         "--data and --val (where the same dataset lies now), --epochs and --max-steps (if "
                         "the schedule's past stays the same), ",
                         run::free_option_names()))
      .type_name("RUN")
      .not_empty()
      .excludes(config);
  flags.add_flag("--json", options->json, "Print one JSON line at the end, instead of tables");
  add_config_flags(flags, options->given);
  flags.show_first({"--config", "--resume", "--model", "--init", "--augment", "--epochs", "--batch", "--lr",
                    "--optimizer", "--weight-decay", "--schedule", "--dtype", "--device", "--threads",
                    "--out"});
  flags.footer("Lists: dlpipe --help ops | models | optimizers | schedules | losses | metrics");
  return [options] { return train(*options); };
}

}  // namespace

extern const CommandRecord train_command;
const CommandRecord train_command = {"train", "Train a model on a dataset", setup};

}  // namespace dlpipe::cli
