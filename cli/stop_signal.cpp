#include "dlpipe/cli/stop_signal.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <string_view>

namespace dlpipe::cli {

static std::atomic<bool> stop_requested{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may set it");

constexpr int kStopSignals[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};
static bool ignored_at_start[NSIG];

// Libraries may take signals in their constructors, before main: UCX, which Open MPI 5 brings, takes HUP. What the parent
// had asked to ignore can then only be seen earlier, by the array of functions that run before all constructors. There
// nothing may be called that a sanitizer or the C library has yet to set up: the system is asked itself.
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

static void request_stop(int) {
  stop_requested.store(true);
  constexpr std::string_view kText = "\nstopping as soon as all is saved; once more to stop at once\n";
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, kText.data(), kText.size());
}
}

const std::atomic<bool>* catch_stop_signals(bool launched) {
  for (const int signal : kStopSignals) {
    if (signal == SIGUSR1 && !launched) continue;
    struct sigaction action {};
    if (ignored_at_start[signal]) {  // nohup, and what a script started with &
      action.sa_handler = SIG_IGN;
      ::sigaction(signal, &action, nullptr);
      continue;
    }
    action.sa_handler = request_stop;
    action.sa_flags = SA_RESTART;
    // Of the others the second one has the default action. A terminal that goes sends several HUPs: the
    // shell's and the system's own.
    if (signal != SIGHUP && signal != SIGUSR1) action.sa_flags |= static_cast<int>(SA_RESETHAND);
    ::sigaction(signal, &action, nullptr);
  }
  return &stop_requested;
}

}  // namespace dlpipe::cli
