// The program `dlpipe`: finds the command, lets it declare its options, parses, runs, and turns the outcome
// into an exit code.
#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <csignal>
#include <map>

#include "dlpipe/base/text.h"
#include "dlpipe/cli/bus_error.h"
#include "dlpipe/cli/command.h"
#include "dlpipe/cli/flags.h"
#include "dlpipe/cli/log_sink.h"
#include "dlpipe/cli/misuse.h"
#include "dlpipe/cli/output.h"
#include "dlpipe/run/build_info.h"

namespace dlpipe::cli {

int exit_code(const Status& status) {
  switch (status.code()) {
    case ErrorCode::kOk:
      return 0;
    case ErrorCode::kMisuse:
      return 2;
    case ErrorCode::kCancelled:
      return 3;
    default:
      return 1;
  }
}

static int fail(const Status& status) {
  print_note(concat("dlpipe: ", status.message()));
  return exit_code(status);
}

// `dlpipe train --help ops`: the word after --help names a topic of the command.
static int show_help(const CLI::App& app, const CLI::CallForHelp& call) {
  const std::vector<std::string> words = app.remaining(true);
  if (words.empty() || app.get_subcommands().empty()) return app.exit(call);
  for (const CommandRecord* record : command_table()) {
    if (record->name != app.get_subcommands().front()->get_name() || record->help_topic == nullptr) continue;
    const Result<std::string> text = record->help_topic(words.front());
    if (!text.ok()) return fail(text.status());
    std::fputs(text->c_str(), stdout);
    return 0;
  }
  return app.exit(call);
}

/// A file of the run must not take the number of a standard stream that the caller closed, and get what is
/// said there. What stands in for it can't be used either, in the direction that it has.
static void fill_standard_streams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
    (void)::open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);  // takes the lowest number free
  }
}

static int run_program(int argc, char** argv) {
  CLI::App app("dlpipe: from a folder of raw files to a trained model, with every second accounted for.",
               "dlpipe");
  app.set_version_flag("--version", run::build_line());
  app.require_subcommand(0, 1);
  app.footer(
      "'dlpipe COMMAND --help' shows a command's options and their defaults.\n"
      "Exit codes: 0 done, 1 failed, 2 misuse, 3 stopped by a signal after saving.");
  std::map<const CLI::App*, std::function<Status()>> actions;
  for (const CommandRecord* record : command_table()) {
    CLI::App* sub = app.add_subcommand(record->name, record->help);
    sub->option_defaults()->always_capture_default();
    Flags flags(sub);
    actions[sub] = record->setup(flags);
  }
  if (const Status unknown = find_unknown_command(argc, argv, command_table()); !unknown.ok())
    return fail(unknown);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& call) {
    return show_help(app, call);
  } catch (const CLI::CallForAllHelp&) {
    return app.exit(CLI::CallForAllHelp());
  } catch (const CLI::Success& done) {
    return app.exit(done);
  } catch (const CLI::ParseError& error) {
    return fail(misuse_from_parse_error(error, app));
  }
  if (app.get_subcommands().empty()) {
    print_note(app.help());
    return 2;
  }
  return [&] {
    try {
      const Status status = actions.at(app.get_subcommands().front())();
      return status.ok() ? 0 : fail(status);
    } catch (...) {
      return fail(status_from_current_exception("dlpipe"));
    }
  }();
}

}  // namespace dlpipe::cli

int main(int argc, char** argv) {
  dlpipe::cli::fill_standard_streams();
  std::signal(SIGPIPE, SIG_IGN);  // `dlpipe predict ... | head` ends by a write error, not by a signal
  dlpipe::cli::explain_bus_errors();
  dlpipe::cli::install_log_sink();
  return dlpipe::cli::run_program(argc, argv);
}
