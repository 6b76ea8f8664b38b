// Ctrl-C, the TERM that schedulers send, and the HUP of a terminal that closes. Of a command that can save, the first asks
// the work to save and stop; a second Ctrl-C or TERM ends the process at once. Other commands end at once at the first.
// Whoever ends at once says so in one line, and what was kept, and then ends by the signal itself: shells answer 130 or 143,
// and a loop around the program ends, too. Signals that were ignored when the program started (`nohup dlpipe train`) stay
// ignored.
#pragma once

#include <atomic>
#include <string_view>

namespace dlpipe::cli {

/// From then on Ctrl-C and TERM end the process at once, with that line. At the start of main. Of several processes that a launcher
/// started only the first one speaks.
void explain_stop_signals(bool is_first_process);

/// What that line says of what was kept, until this ends: "stopped by SIGINT" and then `kept`, such as "; x.png was not
/// written". One at a time, main thread. Text past 900 bytes is left out.
class StopText {
 public:
  explicit StopText(std::string_view kept) { set(kept); }
  ~StopText() { set(""); }
  StopText(const StopText&) = delete;
  StopText& operator=(const StopText&) = delete;
  void set(std::string_view kept);
};

/// Installs the handlers and answers the flag that the first signal sets. `launched`: USR1 asks, too; mpirun forwards it
/// to its processes, where a TERM would have it end them at once. Main thread.
const std::atomic<bool>* catch_stop_signals(bool launched = false);

}  // namespace dlpipe::cli
