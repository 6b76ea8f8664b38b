#include "run/train/launch.h"

#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <thread>
#include <utility>

#include "base/messages.h"
#include "base/text.h"
#include "dlpipe/config.h"
#include "dlpipe/error.h"
#include "engine/collective/launched.h"
#include "run/config/other_names.h"

extern char** environ;

namespace dlpipe::run {

namespace {

constexpr int kDone = 0, kUnknown = 1, kMisused = 2, kStopped = 3;  // exit codes of `dlpipe train`

/// All spellings of `name` on command lines: --out, --output, -o.
std::vector<std::string> names_of(const std::string& name) {
  std::vector<std::string> names = {name};
  for (const OtherNames& one : other_names()) {
    if (name == one.name) names.insert(names.end(), one.aliases.begin(), one.aliases.end());
  }
  return names;
}

/// The value of `--name VALUE`, `--name=VALUE` or `-nVALUE`; the last one counts, as in the run itself. Empty if not given.
std::string option_of(const std::vector<std::string>& arguments, const std::string& name) {
  std::string value;
  const std::vector<std::string> names = names_of(name);
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    for (const std::string& one : names) {
      const std::string before_value = one.starts_with("--") ? one + "=" : one;
      if (word == one)
        value = i + 1 < arguments.size() ? arguments[i + 1] : value;
      else if (word.starts_with(before_value))
        value = word.substr(before_value.size());
    }
  }
  return value;
}

/// `train --resume RUN` with those of `arguments` that affect output; the others are in the run's config.toml.
std::vector<std::string> resuming(const std::string& run, const std::vector<std::string>& arguments) {
  std::vector<std::string> words = {"train", "--resume", run};
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    if (word == "--quiet" || word == "--json" || word.starts_with("--color=")) words.push_back(word);
    if (word == "--color" && i + 1 < arguments.size()) words.insert(words.end(), {word, arguments[i + 1]});
  }
  return words;
}

/// The run directory of the command after --, from its command line and config file.
struct RunOptions {
  std::string run;  // its directory; empty: not given
  bool resumes = false;
  double peer_timeout_s = 0;
};
Result<RunOptions> run_options(const std::vector<std::string>& arguments) {
  RunOptions options;
  options.run = option_of(arguments, "--resume");
  options.resumes = !options.run.empty();
  const std::string file = options.resumes ? options.run + "/config.toml" : option_of(arguments, "--config");
  TrainConfig config;
  if (!file.empty()) {
    const Status status = read_config(file, config);
    if (!status.ok() && !options.resumes) return status;  // if the run is missing, train's error says more
  }
  if (const std::string out = option_of(arguments, "--out"); !out.empty()) config.out = out;
  if (!options.resumes) options.run = config.out;
  options.peer_timeout_s = config.peer_timeout;
  if (const std::string given = option_of(arguments, "--peer-timeout"); !given.empty())
    parse_double(given, &options.peer_timeout_s);
  return options;
}

/// The command line of one attempt. The processes divide the machine's cores themselves: mpirun would bind each to one core
/// with two processes, and to a socket's cores with more. Its slots are cores, while dlpipe counts threads.
std::vector<std::string> command_of(const LaunchOptions& options, const std::vector<std::string>& train,
                                    int64_t processes) {
  std::vector<std::string> words = {options.mpirun, "-np", std::to_string(processes)};
  if (::geteuid() == 0) words.emplace_back("--allow-run-as-root");
  if (options.mpirun_arguments.empty()) words.emplace_back("--oversubscribe");
  if (std::ranges::none_of(options.mpirun_arguments,
                           [](const std::string& word) { return word.find("bind") != std::string::npos; }))
    words.insert(words.end(), {"--bind-to", "none"});
  words.insert(words.end(), options.mpirun_arguments.begin(), options.mpirun_arguments.end());
  words.push_back(options.program);
  words.insert(words.end(), train.begin(), train.end());
  return words;
}

/// By default, mpirun checks every five minutes whether it still reaches its other machines. If a machine loses its network, the
/// peers of its ranks notice that first; mpirun's messages to it then block for a quarter of an hour. With these settings, mpirun
/// checks more often, ends the run within half of --peer-timeout, and names the machine. The user's own settings are kept.
void let_mpirun_miss_machines_early(double timeout_s) {
  const auto seconds = [&](double share) {
    return std::to_string(std::max<int64_t>(1, static_cast<int64_t>(timeout_s * share)));
  };
  for (const auto& [name, value] : {std::pair("time", seconds(1.0 / 4)), std::pair("intvl", seconds(1.0 / 8)),
                                    std::pair("probes", std::string("2"))}) {
    // NOLINTNEXTLINE(concurrency-mt-unsafe): the program has one thread here
    ::setenv(concat("OMPI_MCA_oob_tcp_keepalive_", name).c_str(), value.c_str(), 0);
  }
}

/// Starts the command in a separate process group: Ctrl-C reaches only this process, which forwards it with a signal for mpirun.
Result<pid_t> start(std::vector<std::string>& words) {
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  // If the parent of this program ignores the signal, the system would not keep a child's exit code.
  struct sigaction handled {};
  if (::sigaction(SIGCHLD, nullptr, &handled) == 0 && handled.sa_handler == SIG_IGN)
    ::signal(SIGCHLD, SIG_DFL);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  pid_t pid = 0;
  const int error = ::posix_spawnp(&pid, argv[0], nullptr, &attributes, argv.data(), environ);
  posix_spawnattr_destroy(&attributes);
  if (error == ENOENT) {
    return Status(ErrorCode::kNotFound,
                  concat("[launch] there is no program ", words[0],
                         "; install Open MPI (openmpi-bin), or give its path with --mpirun"));
  }
  if (error != 0) return status_from_errno("launch", concat("cannot start ", words[0]), error);
  return pid;
}

/// Waits for the process. Forwards a request to stop once, with the signal that mpirun forwards and survives. Returns the exit
/// code, or 128 plus the number of the signal that ended the process.
int wait_for(pid_t pid, const std::atomic<bool>* stop) {
  constexpr std::chrono::milliseconds kLook{20};
  bool has_said = false;
  while (true) {
    int status = 0;
    const pid_t ended = ::waitpid(pid, &status, WNOHANG);
    if (ended == pid) return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (ended < 0 && errno != EINTR) return kUnknown;  // other code of this program waited for it
    if (!has_said && stop != nullptr && stop->load()) {
      has_said = true;
      ::kill(pid, SIGUSR1);
    }
    std::this_thread::sleep_for(kLook);
  }
}

Status check(const LaunchOptions& options, const RunOptions& run) {
  const auto is_power_of_two = [](int64_t n) { return n > 0 && (n & (n - 1)) == 0; };
  if (options.arguments.empty() || options.arguments.front() != "train")
    return misuse("launch",
                  "give the command after --: dlpipe launch --np 4 -- train --data DATA ... --out RUN");
  if (!is_power_of_two(options.processes))
    return misuse("launch", "--np ", options.processes, "; use 1, 2, 4, 8 or another power of two");
  if (options.fewest < 1 || options.fewest > options.processes)
    return misuse("launch", "--min-np ", options.fewest, "; use 1 to ", options.processes, " (--np)");
  if (run.run.empty())
    return misuse("launch", "there is no run directory; give --out RUN or --resume RUN after --");
  return {};
}

/// How to continue the run; empty if nothing was saved.
std::string again_text(const std::string& run, int64_t processes) {
  if (!std::filesystem::exists(run + "/checkpoints/last")) return "";
  return concat("; continue with: dlpipe launch --np ", processes, " -- train --resume ", shell_word(run));
}

}  // namespace

Status launch(const LaunchOptions& options, const std::atomic<bool>* stop,
              const std::function<void(const std::string&)>& note) {
  DLPIPE_ASSIGN_OR_RETURN(const RunOptions given, run_options(options.arguments));
  DLPIPE_RETURN_IF_ERROR(check(options, given));
  if (!engine::has_ranks_library() && options.processes > 1) {
    return {ErrorCode::kUnsupported,
            "[launch] this dlpipe was built without MPI; install libopenmpi-dev and build it again"};
  }
  let_mpirun_miss_machines_early(given.peer_timeout_s);
  const auto is_run = [&] { return std::filesystem::exists(given.run + "/config.toml"); };
  // Only a run that this launch began is continued. `train` rejects an --out with another run, but the first attempt may have
  // failed before that.
  const bool may_go_on = !given.resumes && !is_run();
  for (int64_t processes = options.processes;; processes /= 2) {
    // If the first attempt failed before its run began, the next one starts over. A resumed run gets the same options again,
    // because changes may not be in its config.toml yet, and they take effect only once.
    const bool goes_on = may_go_on && processes != options.processes && is_run();
    std::vector<std::string> words =
        command_of(options, goes_on ? resuming(given.run, options.arguments) : options.arguments, processes);
    DLPIPE_ASSIGN_OR_RETURN(const pid_t pid, start(words));
    const int code = wait_for(pid, stop);
    if (code == kDone) return {};
    if (code == kMisused) return {ErrorCode::kMisuse, ""};  // the run has reported why
    const bool is_stopped = stop != nullptr && stop->load();
    const std::string again = again_text(given.run, processes);
    if (code == kStopped || is_stopped) {
      return {code == kStopped ? ErrorCode::kCancelled : ErrorCode::kIo,
              concat("[launch] stopped", code == kStopped ? "" : " before everything was saved", again)};
    }
    if (!options.elastic || processes / 2 < options.fewest) {
      return {ErrorCode::kIo,
              concat("[launch] the run failed with ", counted(processes, "process", "processes"),
                     " (mpirun's exit code is ", code, ")",
                     options.elastic ? ", and --min-np does not allow fewer" : "", again)};
    }
    note(concat("the run failed with ", processes, " processes (mpirun's exit code is ", code,
                "); continuing with ", processes / 2));
  }
}

}  // namespace dlpipe::run
