// Runs the program as a user does and keeps what it printed. The path comes from the build (DLPIPE_PROGRAM).
#pragma once

#include <sys/resource.h>

#include <string>
#include <vector>

namespace dlpipe::test {

struct Outcome {
  int exit_code = -1;  // -1: ended by a signal
  int signal = 0;
  std::string out;  // stdout
  std::string err;  // stderr
};

/// Files that a program's streams are, instead of files that the Outcome holds.
struct Streams {
  std::string out = {};
  std::string err = {};
  std::string in = "/dev/null";
  bool has_out = true;  // else it is closed, as by >&-
  /// A terminal's device: all three streams are it, and it is the program's own, which closing it hangs up.
  std::string terminal = {};
};

/// Where the program is.
std::string program_path();

/// Runs `dlpipe ARGUMENTS...` to its end.
Outcome run_dlpipe(const std::vector<std::string>& arguments, const Streams& streams = {});

/// A running `dlpipe`, for tests that send signals. Killed on destruction if it still runs.
class RunningProgram {
 public:
  explicit RunningProgram(const std::vector<std::string>& arguments, Streams streams = {});
  ~RunningProgram();
  RunningProgram(const RunningProgram&) = delete;
  RunningProgram& operator=(const RunningProgram&) = delete;

  void send(int signal);
  /// Waits until it has a handler for `signal`; false when it ends before.
  bool wait_until_it_catches(int signal);
  /// True when it has ended (its Outcome is then in outcome()).
  bool ended();
  Outcome wait();

 private:
  int pid_ = -1;
  Streams streams_;
  std::string out_file_;
  std::string err_file_;
  Outcome outcome_;
  bool ended_ = false;
  void finish(int wait_status);
};

/// A terminal of the test's own, whose screen the test reads.
class Terminal {
 public:
  explicit Terminal(unsigned short columns = 80);
  ~Terminal() { close(); }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  /// Its path, for Streams.
  std::string device() const;
  /// What has been shown since the last call; waits for nothing.
  std::string take_shown();
  /// What is shown from now until nobody has it open any more.
  std::string wait_for_end();
  /// Hangs up.
  void close();

 private:
  int fd_ = -1;
};

/// An empty directory of the test's own, removed at the end.
class ScratchDirectory {
 public:
  ScratchDirectory();
  ~ScratchDirectory();
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

/// Has the programs that are started in its scope live under a limit of the system's (setrlimit).
class Limited {
 public:
  Limited(int resource, rlim_t most) : resource_(resource) {
    ::getrlimit(resource_, &former_);
    const rlimit limit = {most, former_.rlim_max};
    ::setrlimit(resource_, &limit);
  }
  ~Limited() { ::setrlimit(resource_, &former_); }
  Limited(const Limited&) = delete;
  Limited& operator=(const Limited&) = delete;

 private:
  int resource_;
  rlimit former_{};
};

}  // namespace dlpipe::test
