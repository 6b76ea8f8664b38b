#include "dlpipe/cli/bus_error.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <string_view>

namespace dlpipe::cli {

// Two threads may meet it at once: the second must not end the program while the first still speaks.
static std::atomic<bool> s_is_met = false;
static std::atomic<bool> s_is_told = false;

extern "C" {
static void explain_bus_error(int) {
  constexpr std::string_view kText =
      "\ndlpipe: [dataset] a mapped page could not be read: a dataset became shorter or was overwritten "
      "while it was in use, or its disk failed; look for disk errors, check it with `dlpipe verify DATA`, "
      "copy or ingest it again; a run goes on with --resume\n";
  if (s_is_met.exchange(true)) {
    while (!s_is_told.load()) {
    }
    return;
  }
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, kText.data(), kText.size());
  ::signal(SIGBUS, SIG_DFL);  // the load is tried again, and ends the program
  s_is_told.store(true);
}
}

void explain_bus_errors() {
  struct sigaction action {};
  action.sa_handler = explain_bus_error;
  ::sigaction(SIGBUS, &action, nullptr);
}

}  // namespace dlpipe::cli
