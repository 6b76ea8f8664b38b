// Signals, and errors that cannot be caught.
//
// Stop signals are Ctrl-C, the TERM that schedulers send, and the HUP of a terminal that closes. If a command can save, or a server
// has requests to answer, the first one makes it do so and stop, and a second Ctrl-C or TERM ends the process at once. Other commands end at once. A process that ends at once
// prints one line that says what was kept, and is then killed by the signal itself: shells return 130 or 143, and a loop around the
// program ends, too. Signals that were ignored when the program started (`nohup dlpipe train`) stay ignored. Main thread.
#pragma once

#include <atomic>
#include <string_view>

namespace dlpipe::cli {

/// From then on Ctrl-C and TERM end the process at once, with that line. Call at the start of main. Only the first of several
/// processes that a launcher started prints the line.
void explain_stop_signals(bool is_first_process);

/// Sets what that line says was kept, for the lifetime of this object: "stopped by SIGINT", then `kept`, such as "; x.png was not
/// written". Only one object may exist at a time. Text beyond 900 bytes is cut off.
class StopText {
 public:
  explicit StopText(std::string_view kept) { set(kept); }
  ~StopText() { set(""); }
  StopText(const StopText&) = delete;
  StopText& operator=(const StopText&) = delete;
  void set(std::string_view kept);
};

/// Installs the handlers and returns the flag that the first signal sets. `launched`: USR1 sets it, too. mpirun forwards USR1
/// to its processes, but ends them at once when it gets a TERM. `notice`: what the first signal prints, a literal.
const std::atomic<bool>* catch_stop_signals(
    bool launched = false, std::string_view notice = "stopping as soon as everything is saved");

/// From now on std::terminate prints its reason on stderr and exits with 1. oneTBB throws when the system has no more threads, in a
/// place that exceptions can't leave. Call once.
void explain_uncaught_errors();

}  // namespace dlpipe::cli
