// `dlpipe launch --np 4 -- train ...`: a training run in several processes, with mpirun.
#include <algorithm>
#include <filesystem>

#include "dlpipe/base/text.h"
#include "dlpipe/cli/command.h"
#include "dlpipe/cli/flags.h"
#include "dlpipe/cli/option_names.h"
#include "dlpipe/cli/output.h"
#include "dlpipe/cli/stop_signal.h"
#include "dlpipe/run/train/launch.h"

namespace dlpipe::cli {

namespace {

/// `-- --quiet train ...` as `train --quiet ...`.
void put_command_first(std::vector<std::string>& words) {
  const auto command = words.begin() + static_cast<std::ptrdiff_t>(command_place(words));
  if (command != words.end()) std::rotate(words.begin(), command, command + 1);
}

std::function<Status()> setup(Flags& flags) {
  auto options = std::make_shared<run::LaunchOptions>();
  auto more = std::make_shared<std::string>();
  flags
      .add_option("COMMAND", options->arguments,
                  "After --: train and its options, --out or --resume among them")
      .required();
  flags.add_option("--np", options->processes, "Processes, a power of two; -np is the same");
  flags.add_flag("--elastic", options->elastic,
                 "When a process is lost, go on from the last checkpoint with half as many processes");
  flags.add_option("--min-np", options->fewest,
                   "With --elastic: give up when fewer processes than this are left");
  flags.add_option("--mpirun", options->mpirun, "The launcher, Open MPI's mpirun").type_name("FILE");
  flags.add_option("--mpirun-args", *more, "Words for mpirun, as \"--hostfile hosts\"");
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

extern const CommandRecord launch_command;
const CommandRecord launch_command = {"launch", "Train in several processes, with mpirun", setup};

}  // namespace dlpipe::cli
