// Ctrl-C, and the TERM that schedulers send: the first asks the work to save and stop, a second one ends the
// process at once, as if nobody had asked.
#pragma once

#include <atomic>

namespace dlpipe::cli {

/// Installs the handlers and answers the flag that the first signal sets. Main thread.
const std::atomic<bool>* catch_stop_signals();

}  // namespace dlpipe::cli
