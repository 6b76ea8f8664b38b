// Ctrl-C, the TERM that schedulers send, and the HUP of a terminal that closes: the first asks the work to save
// and stop; a second Ctrl-C or TERM ends the process at once, as if nobody had asked. Signals that were ignored
// when the program started (`nohup dlpipe train`) stay ignored.
#pragma once

#include <atomic>

namespace dlpipe::cli {

/// Installs the handlers and answers the flag that the first signal sets. `launched`: USR1 asks, too; mpirun forwards it
/// to its processes, where a TERM would have it end them at once. Main thread.
const std::atomic<bool>* catch_stop_signals(bool launched = false);

}  // namespace dlpipe::cli
