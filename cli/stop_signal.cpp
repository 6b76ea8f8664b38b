#include "dlpipe/cli/stop_signal.h"

#include <signal.h>
#include <unistd.h>

#include <string_view>

namespace dlpipe::cli {

static std::atomic<bool> stop_requested{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may set it");

extern "C" {
static void request_stop(int) {
  stop_requested.store(true);
  constexpr std::string_view kText = "\nstopping as soon as all is saved; once more to stop at once\n";
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, kText.data(), kText.size());
}
}

const std::atomic<bool>* catch_stop_signals(bool launched) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) {
    if (signal == SIGUSR1 && !launched) continue;
    struct sigaction former {};
    ::sigaction(signal, nullptr, &former);
    if (former.sa_handler == SIG_IGN) continue;  // nohup, and what a script started with &
    struct sigaction action {};
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
