// The program `dlpipe`: parses, runs the command and turns the outcome into an exit code.
#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <functional>
#include <string>
#include <vector>

#include "dlpipe/base/machine.h"
#include "dlpipe/base/printable.h"
#include "dlpipe/base/shell_word.h"
#include "dlpipe/base/text.h"
#include "dlpipe/cli/bus_error.h"
#include "dlpipe/cli/command.h"
#include "dlpipe/cli/given_values.h"
#include "dlpipe/cli/help_text.h"
#include "dlpipe/cli/log_sink.h"
#include "dlpipe/cli/misuse.h"
#include "dlpipe/cli/option_names.h"
#include "dlpipe/cli/output.h"
#include "dlpipe/cli/program.h"
#include "dlpipe/cli/stop_signal.h"
#include "dlpipe/cli/uncaught.h"
#include "dlpipe/engine/collective/launched.h"

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

/// An empty message: another process of the run says it.
static int fail(const Status& status) {
  if (!status.message().empty()) print_error(status.message());
  return exit_code(status);
}

/// Of several that a launcher started with the same words.
static bool is_first_process() {
  const auto launched = engine::launched_rank();
  return !launched.ok() || launched->rank == 0;
}

// What throws on the way ends in a message and an exit code, too.
static int run_guarded(const std::function<Status()>& work) {
  try {
    const Status status = work();
    return status.ok() ? 0 : fail(status);
  } catch (...) {
    return fail(status_from_current_exception("dlpipe"));
  }
}

static Status print_help(const CommandText& program, const HelpRequest& request) {
  DLPIPE_ASSIGN_OR_RETURN(const std::string text, answer_help(program, request));
  print_answer(text);
  return {};
}

/// A file of the run must not take the number of a standard stream that the caller closed, and get what is
/// said there. What stands in for it can't be used either, in the direction that it has.
static void fill_standard_streams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
    (void)::open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);  // takes the lowest number free
  }
}

/// Every kernel has a form without AVX2, but its speed should not be taken for dlpipe's.
static void say_what_the_cpu_lacks() {
#if defined(__x86_64__)
  if (cpu_isa().find("avx2") == std::string::npos)
    print_warning("dlpipe: this CPU has no AVX2: all works, but much slower than on CPUs that have it");
#endif
}

/// Which of a switch and its opposite counts, where both are given.
static void say_which_switch_counts(const CLI::Option& option, const std::string& area) {
  const std::vector<std::string>& given = option.results();
  const bool is_contradicted = std::ranges::adjacent_find(given, std::not_equal_to<>()) != given.end() &&
                               option.get_lnames().size() == 2;
  if (!is_contradicted) return;
  const std::string& yes = option.get_lnames()[0];
  const std::string& no = option.get_lnames()[1];
  print_note(concat("[", area, "] --", yes, " and --", no, " are both given; the last one, --",
                    given.back() == "true" ? yes : no, ", counts"));
}

/// Of an option that is given twice the last one counts. `area` is the command's name, also for a part of it.
static void say_what_is_given_again(const CLI::App& command, const std::string& area) {
  for (const CLI::Option* option : command.get_options()) {
    const bool is_last_taken = option->get_multi_option_policy() == CLI::MultiOptionPolicy::TakeLast;
    if (!is_last_taken || option->count() < 2) continue;
    if (option->get_expected_max() == 0) {
      say_which_switch_counts(*option, area);
      continue;
    }
    const std::string& last = option->results().back();
    print_note(concat("[", area, "] ", option->get_name(), " is given ", option->count(),
                      " times; the last one, ", last.starts_with('-') ? in_quotes(last) : shell_word(last),
                      ", counts"));  // a value, which may be -1, no path
  }
  for (const CLI::App* part : command.get_subcommands()) say_what_is_given_again(*part, area);
}

static int run_program(int argc, char** argv) {
  const std::vector<std::string> arguments = spelled_as_ours({argv + std::min(argc, 1), argv + argc});
  const std::unique_ptr<Program> program = make_program();
  if (const Status unknown = find_unknown_command(arguments, program->text); !unknown.ok())
    return fail(unknown);
  if (const auto request = find_help_request(program->text, arguments)) {
    return run_guarded([&] { return print_help(program->text, *request); });
  }
  try {
    const auto apart = value_or_throw(with_values_apart(arguments, program->text));
    program->app.parse(std::vector<std::string>(apart.rbegin(), apart.rend()));  // from the end
  } catch (const CLI::CallForVersion& version) {
    return run_guarded([&] {
      print_answer(version.what());
      return Status();
    });
  } catch (const CLI::ParseError& error) {
    const Status misuse = misuse_from_parse_error(error, program->app, program->text);
    return is_first_process() ? fail(misuse) : exit_code(misuse);
  } catch (...) {
    const Status status = status_from_current_exception("cli");
    return is_first_process() ? fail(status) : exit_code(status);
  }
  set_output(program->output);
  install_log_sink(is_first_process());
  say_what_the_cpu_lacks();
  if (program->app.get_subcommands().empty()) {
    print_warning(help_text(program->text, false, text_width()));
    return exit_code(Status(ErrorCode::kMisuse, ""));
  }
  CLI::App* const command = program->app.get_subcommands().front();
  if (is_first_process()) say_what_is_given_again(*command, command->get_name());
  return run_guarded(program->actions.at(command));
}

}  // namespace dlpipe::cli

int main(int argc, char** argv) {
  dlpipe::cli::fill_standard_streams();
  std::signal(SIGPIPE, SIG_IGN);  // `dlpipe predict ... | head` ends by a write error, not by a signal
  std::signal(SIGXFSZ, SIG_IGN);  // so does a file that grows past ulimit -f
  dlpipe::cli::explain_stop_signals(dlpipe::cli::is_first_process());
  dlpipe::cli::explain_bus_errors();
  dlpipe::cli::explain_uncaught_errors();
  return dlpipe::cli::run_program(argc, argv);
}
