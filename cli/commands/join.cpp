// `dlpipe join DST PART...`: the parts of an ingest to one dataset.
#include <memory>

#include "dlpipe/base/refuse.h"
#include "dlpipe/cli/command.h"
#include "dlpipe/cli/flags.h"
#include "dlpipe/cli/ingest_view.h"
#include "dlpipe/cli/stop_signal.h"
#include "dlpipe/run/ingest/join.h"

namespace dlpipe::cli {

namespace {

struct Options {
  ingest::JoinOptions join;
  bool json = false;
};

Status run(Options options) {
  if (options.join.destination.empty())  // an unset variable
    return misuse("join", "DST is empty; give the dataset to make");
  const std::atomic<bool>* stop = catch_stop_signals();
  options.join.stop_requested = [stop] { return stop->load(); };
  return show_ingest("join", options.json, [&](const auto& progress, const auto& on_warning) {
    options.join.on_warning = on_warning;
    return ingest::join(options.join, progress);
  });
}

std::function<Status()> setup(Flags& flags) {
  auto options = std::make_shared<Options>();
  flags
      .add_option("DST", options->join.destination,
                  "Dataset to make; an interrupted run is continued by the same command")
      .required();
  flags.add_option("PART", options->join.parts, "All parts, in any order: what `dlpipe ingest --part` made")
      .required();
  flags.add_flag("--json", options->json, "Print one JSON line");
  flags.footer(
      "The same bytes as one ingest of all files gives. The parts stay; remove them when DST is there.");
  return [options] { return run(*options); };
}

}  // namespace

extern const CommandRecord join_command;
const CommandRecord join_command = {"join", "Make one dataset of the parts of an ingest", setup};

}  // namespace dlpipe::cli
