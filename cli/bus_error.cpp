#include "dlpipe/cli/bus_error.h"

#include <signal.h>
#include <unistd.h>

#include <string_view>

namespace dlpipe::cli {

extern "C" {
static void explain_bus_error(int) {
  constexpr std::string_view kText =
      "\ndlpipe: [dataset] a mapped page could not be read: a dataset became shorter or was overwritten "
      "while it was in use, or its disk failed; look for disk errors, check it with `dlpipe verify`, copy "
      "or ingest it again; a run goes on with --resume\n";
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, kText.data(), kText.size());
}
}

void explain_bus_errors() {
  struct sigaction action {};
  action.sa_handler = explain_bus_error;
  action.sa_flags = static_cast<int>(SA_RESETHAND);  // the load is tried again, and ends the program
  ::sigaction(SIGBUS, &action, nullptr);
}

}  // namespace dlpipe::cli
