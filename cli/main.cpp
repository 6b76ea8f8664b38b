// The program `dlpipe`: parses, runs the command and turns the outcome into an exit code.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <functional>
#include <string>
#include <vector>

#include "base/machine.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/command_line.h"
#include "cli/help.h"
#include "cli/output.h"
#include "cli/signals.h"
#include "engine/collective/launched.h"
#include "io/data/bus_error.h"

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

/// An empty message: another process of the run reports it.
static int fail(const Status& status) {
  if (!status.message().empty()) print_error(status.message());
  return exit_code(status);
}

/// Whether this is the first of the processes that a launcher started with the same arguments.
static bool is_first_process() {
  const auto launched = engine::launched_rank();
  return !launched.ok() || launched->rank == 0;
}

// An exception becomes a message and an exit code, too.
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

/// Reopens standard streams that the caller closed. Otherwise a file of the run could get such a number, and receive the program's
/// output. The replacement is opened in the opposite direction, so that using the stream is still an error.
static void fill_standard_streams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
    (void)::open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);  // gets the lowest free number
  }
}

/// Every kernel has a version without AVX2, but it is much slower.
static void say_what_the_cpu_lacks() {
#if defined(__x86_64__)
  if (cpu_isa().find("avx2") == std::string::npos)
    print_warning(
        "dlpipe: this CPU has no AVX2: everything works, but much slower than on CPUs that have it");
#endif
}

static int run_program(int argc, char** argv) {
  const std::vector<std::string> words = spelled_as_ours({argv + std::min(argc, 1), argv + argc});
  const std::unique_ptr<Program> program = make_program();
  if (const Status unknown = find_unknown_command(words, program->text); !unknown.ok()) return fail(unknown);
  if (const auto request = find_help_request(program->text, words))
    return run_guarded([&] { return print_help(program->text, *request); });
  std::string version;
  if (const Status wrong = parse(*program, words, version); !wrong.ok())
    return is_first_process() ? fail(wrong) : exit_code(wrong);
  if (!version.empty()) {
    return run_guarded([&] {
      print_answer(version);
      return Status();
    });
  }
  set_output(program->output);
  install_log_sink(is_first_process());
  say_what_the_cpu_lacks();
  if (program->command() == nullptr) {
    print_warning(help_text(program->text, false, text_width()));
    return exit_code(Status(ErrorCode::kMisuse, ""));
  }
  if (is_first_process()) note_repeated_options(*program);
  return run_guarded(program->actions.at(program->command()));
}

}  // namespace dlpipe::cli

int main(int argc, char** argv) {
  dlpipe::cli::fill_standard_streams();
  std::signal(SIGPIPE, SIG_IGN);  // `dlpipe predict ... | head` ends with a write error, not with a signal
  std::signal(SIGXFSZ, SIG_IGN);  // the same for a file that grows beyond ulimit -f
  dlpipe::cli::explain_stop_signals(dlpipe::cli::is_first_process());
  dlpipe::data::explain_bus_errors();
  dlpipe::cli::explain_uncaught_errors();
  return dlpipe::cli::run_program(argc, argv);
}
