// Starts a training run in several processes with mpirun and, if requested, restarts it with fewer processes when one dies.
// mpirun does the work; this code passes what a dlpipe run needs.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "dlpipe/error.h"

namespace dlpipe::run {

struct LaunchOptions {
  std::string program;                 // dlpipe itself
  std::vector<std::string> arguments;  // "train" and its options, with --out or --resume
  int64_t processes = 1;               // a power of two
  bool elastic = false;  // when a process is lost, resumes from the last checkpoint with half of them
  int64_t fewest = 1;    // but with at least this many
  std::string mpirun = "mpirun";
  std::vector<std::string> mpirun_arguments = {};  // "--hostfile", "hosts"
};

/// Returns when the run has ended: ok; kCancelled if it was stopped and has saved; kMisuse if the run rejected its options; kIo
/// if it failed. When `stop` is set, all processes save and stop. Waits in the calling thread. The processes write to this
/// process's stdout and stderr.
Status launch(const LaunchOptions& options, const std::atomic<bool>* stop,
              const std::function<void(const std::string&)>& note);

}  // namespace dlpipe::run
