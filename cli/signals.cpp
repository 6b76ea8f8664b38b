#include "cli/signals.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <exception>
#include <string>
#include <string_view>

#include "base/text.h"
#include "dlpipe/error.h"

namespace dlpipe::cli {

/// There are two, so that a handler on another thread reads the one that isn't being written.
struct KeptText {
  char text[900];
  size_t size = 0;
  std::string_view view() const { return {text, size}; }
};
static KeptText kept_texts[2];
static std::atomic<int> kept_index{0};
static std::string_view stop_notice;  // set before the handlers that print it are installed
static bool begins_line = false;
static bool speaks = true;
static std::atomic<bool> is_ending{false};
static std::atomic<bool> was_sent[NSIG];
static std::atomic<bool> stop_requested{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may set it");

constexpr int kStopSignals[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};
static bool ignored_at_start[NSIG];

// Libraries may install handlers in their constructors, before main: UCX, which comes with Open MPI 5, handles HUP. So the signals that
// the parent ignored have to be read earlier, in the array of functions that run before all constructors. Sanitizers and the C library
// are not yet initialised there, so this makes the system call directly.
extern "C" {
__attribute__((no_sanitize("address", "undefined", "thread"))) static void note_ignored_signals(int, char**,
                                                                                                char**) {
  constexpr size_t kMaskBytes = 8;
  for (const int signal : kStopSignals) {
    unsigned long action[8] = {};  // the system's own struct; it begins with the handler
    if (::syscall(SYS_rt_sigaction, signal, nullptr, action, kMaskBytes) == 0)
      ignored_at_start[signal] = action[0] == reinterpret_cast<unsigned long>(SIG_IGN);
  }
}
using Preinit = void (*)(int, char**, char**);
__attribute__((section(".preinit_array"), used)) static const Preinit note_ignored_signals_first =
    note_ignored_signals;

// Prints one line, then does what the signal does by default. Calls only functions that are allowed in a handler.
static void end_by(int signal) {
  const bool is_first = !is_ending.exchange(true);
  if (is_first && speaks) {
    const std::string_view kept = kept_texts[kept_index.load()].view();
    for (const std::string_view part :
         {std::string_view(begins_line ? "\n" : ""), std::string_view("dlpipe: stopped by "),
          std::string_view(signal == SIGINT ? "SIGINT" : "SIGTERM"), kept, std::string_view("\n")}) {
      [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, part.data(), part.size());
    }
  }
  ::signal(signal, SIG_DFL);
  ::raise(signal);  // takes effect when the handler returns, which unblocks the signal
}

static void request_stop(int signal) {
  // A second HUP doesn't count: the shell and the system send one each.
  const bool is_second = was_sent[signal].exchange(true) && (signal == SIGINT || signal == SIGTERM);
  if (is_second) return end_by(signal);
  stop_requested.store(true);
  if (!speaks || signal == SIGUSR1) return;  // the sender of USR1 has reported it
  const int interrupted = errno;             // belongs to the interrupted code
  for (const std::string_view part :
       {std::string_view("\n"), stop_notice, std::string_view("; repeat the signal to stop at once\n")}) {
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, part.data(), part.size());
  }
  errno = interrupted;
}
}

void StopText::set(std::string_view kept) {
  if (is_ending) return;
  const int other = 1 - kept_index.load();
  kept_texts[other].size = std::min(kept.size(), sizeof KeptText::text);
  std::copy_n(kept.data(), kept_texts[other].size, kept_texts[other].text);
  kept_index.store(other);
}

void explain_stop_signals(bool is_first_process) {
  speaks = is_first_process;
  begins_line = ::isatty(STDERR_FILENO) == 1;  // after ^C and a line of progress
  for (const int signal : {SIGINT, SIGTERM}) {
    if (ignored_at_start[signal]) continue;
    struct sigaction action {};
    action.sa_handler = end_by;
    ::sigaction(signal, &action, nullptr);
  }
}

const std::atomic<bool>* catch_stop_signals(bool launched, std::string_view notice) {
  stop_notice = notice;
  for (const int signal : kStopSignals) {
    if (signal == SIGUSR1 && !launched) continue;
    struct sigaction action {};
    if (ignored_at_start[signal]) {  // by nohup, or by a script that used &
      action.sa_handler = SIG_IGN;
      ::sigaction(signal, &action, nullptr);
      continue;
    }
    action.sa_handler = request_stop;
    action.sa_flags = SA_RESTART;
    ::sigaction(signal, &action, nullptr);
  }
  return &stop_requested;
}

// Errors that cannot be caught.

/// The number of threads of this process; 0 if unknown.
static int64_t threads_now() {
  constexpr std::string_view kName = "Threads:";
  int64_t threads = 0;
  FILE* const file = std::fopen("/proc/self/status", "re");
  if (file == nullptr) return 0;
  char line[256];
  while (std::fgets(line, sizeof line, file) != nullptr) {
    if (std::string_view(line).rfind(kName, 0) == 0) (void)parse_int(trim(line + kName.size()), &threads);
  }
  std::fclose(file);
  return threads;
}

static std::string explanation() {
  if (std::current_exception() == nullptr) return "[dlpipe] ended for an unknown reason";
  try {
    throw;
  } catch (const std::exception& error) {
    const std::string_view what = error.what();
    if (what.find("pthread_create") != std::string_view::npos) {
      return concat("[threads] the system refused to create another thread; there are ", threads_now(),
                    "; raise ulimit -v or ulimit -u, or use fewer --threads; a run can be resumed with "
                    "--resume");
    }
  } catch (...) {
  }
  return status_from_current_exception("dlpipe").message();
}

void explain_uncaught_errors() {
  std::set_terminate([] {
    const std::string text = concat("\ndlpipe: ", explanation(), "\n");
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
    ::_exit(1);
  });
}

}  // namespace dlpipe::cli
