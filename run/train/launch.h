// Starts a training run in several processes with mpirun, and where it is asked to, starts it again with those that are
// left when one dies. mpirun does the work; this says to it what a run of dlpipe needs.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "dlpipe/base/error.h"

namespace dlpipe::run {

struct LaunchOptions {
  std::string program;                 // dlpipe itself
  std::vector<std::string> arguments;  // "train" and its options, with --out or --resume
  int64_t processes = 1;               // a power of two
  bool elastic = false;                // goes on from the last checkpoint with half as many when one is lost
  int64_t fewest = 1;                  // then no fewer than so many
  std::string mpirun = "mpirun";
  std::vector<std::string> mpirun_arguments = {};  // "--hostfile", "hosts"
};

/// Until the run is over: ok; kCancelled where it was stopped and has saved; kMisuse where the run refused its options;
/// kIo where it failed. When `stop` is set all processes save and stop. Waits in the calling thread; the processes write
/// to this one's stdout and stderr.
Status launch(const LaunchOptions& options, const std::atomic<bool>* stop,
              const std::function<void(const std::string&)>& note);

}  // namespace dlpipe::run
