#include "tests/cli/program.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <utility>

extern char** environ;

namespace dlpipe::test {

static std::string read_all(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return std::move(text).str();
}

static std::string temporary_file() {
  std::string name = (std::filesystem::temp_directory_path() / "dlpipe_out_XXXXXX").string();
  const int fd = ::mkstemp(name.data());
  if (fd < 0) throw std::runtime_error("mkstemp failed");
  ::close(fd);
  return name;
}

std::string program_path() {
  return DLPIPE_PROGRAM;
}

// The environment of the program. Open MPI unloads its modules before LeakSanitizer looks, which then can't name whose the blocks
// are: where processes are launched, it does not look.
static std::vector<std::string> environment_of(const std::vector<std::string>& arguments) {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) variables.emplace_back(*variable);
  if (std::ranges::find(arguments, "launch") == arguments.end()) return variables;
  constexpr std::string_view kName = "ASAN_OPTIONS=";
  auto options =
      std::ranges::find_if(variables, [&](const std::string& one) { return one.starts_with(kName); });
  if (options == variables.end()) options = variables.insert(options, std::string(kName));
  *options += ":detect_leaks=0";
  return variables;
}

RunningProgram::RunningProgram(const std::vector<std::string>& arguments, Streams streams)
    : streams_(std::move(streams)), out_file_(temporary_file()), err_file_(temporary_file()) {
  std::vector<std::string> words = {program_path()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<std::string> variables = environment_of(arguments);
  const auto pointers = [](std::vector<std::string>& texts) {
    std::vector<char*> all;
    for (std::string& text : texts) all.push_back(text.data());
    all.push_back(nullptr);
    return all;
  };
  const std::vector<char*> argv = pointers(words);
  const std::vector<char*> envp = pointers(variables);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, streams_.in.c_str(), O_RDONLY, 0);
  const std::string& out = streams_.out.empty() ? out_file_ : streams_.out;
  const std::string& err = streams_.err.empty() ? err_file_ : streams_.err;
  if (streams_.has_out) {
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, out.c_str(), O_WRONLY | O_TRUNC | O_NOCTTY, 0);
  } else {
    posix_spawn_file_actions_addclose(&actions, STDOUT_FILENO);
  }
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, err.c_str(), O_WRONLY | O_TRUNC | O_NOCTTY, 0);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  // What a script starts with & ignores Ctrl-C: the program must not take that over from its test. Nor, on a terminal of its
  // own that hangs up, what nohup ignores.
  sigset_t interrupts;
  sigemptyset(&interrupts);
  sigaddset(&interrupts, SIGINT);
  if (!streams_.terminal.empty()) sigaddset(&interrupts, SIGHUP);
  posix_spawnattr_setsigdefault(&attributes, &interrupts);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  if (!streams_.terminal.empty()) {
    // what it opens first is then its terminal
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSID);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, streams_.terminal.c_str(), O_RDWR, 0);
    posix_spawn_file_actions_adddup2(&actions, STDIN_FILENO, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, STDIN_FILENO, STDERR_FILENO);
  }
  const int error = posix_spawn(&pid_, argv[0], &actions, &attributes, argv.data(), envp.data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw std::runtime_error("cannot start " + words[0]);
}

Terminal::Terminal(unsigned short columns) : fd_(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC)) {
  winsize size{};
  size.ws_row = 24;
  size.ws_col = columns;
  if (fd_ < 0 || ::grantpt(fd_) != 0 || ::unlockpt(fd_) != 0 || ::ioctl(fd_, TIOCSWINSZ, &size) != 0)
    throw std::runtime_error("cannot open a terminal");
}

std::string Terminal::device() const {
  return ::ptsname(fd_);
}

std::string Terminal::take_shown() {
  std::string shown;
  std::array<char, 4096> part{};
  for (pollfd one{fd_, POLLIN, 0}; ::poll(&one, 1, 0) > 0 && (one.revents & POLLIN) != 0;) {
    const ssize_t got = ::read(fd_, part.data(), part.size());
    if (got <= 0) break;
    shown.append(part.data(), static_cast<size_t>(got));
  }
  return shown;
}

std::string Terminal::wait_for_end() {
  std::string shown;
  std::array<char, 4096> part{};
  for (ssize_t got = 0; (got = ::read(fd_, part.data(), part.size())) > 0;)
    shown.append(part.data(), static_cast<size_t>(got));  // ends by EIO
  return shown;
}

void Terminal::close() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

RunningProgram::~RunningProgram() {
  if (!ended_) {
    ::kill(pid_, SIGKILL);
    wait();
  }
  std::filesystem::remove(out_file_);
  std::filesystem::remove(err_file_);
}

void RunningProgram::send(int signal) {
  if (!ended_) ::kill(pid_, signal);
}

bool RunningProgram::wait_until_it_catches(int signal) {
  constexpr std::string_view kMask = "SigCgt:\t";
  while (!ended()) {
    std::istringstream status(read_all("/proc/" + std::to_string(pid_) + "/status"));
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with(kMask) &&
          (std::stoull(line.substr(kMask.size()), nullptr, 16) >> (signal - 1) & 1) != 0)
        return true;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

void RunningProgram::finish(int wait_status) {
  ended_ = true;
  if (WIFEXITED(wait_status)) outcome_.exit_code = WEXITSTATUS(wait_status);
  if (WIFSIGNALED(wait_status)) outcome_.signal = WTERMSIG(wait_status);
  outcome_.out = read_all(out_file_);
  outcome_.err = read_all(err_file_);
}

bool RunningProgram::ended() {
  int status = 0;
  if (!ended_ && ::waitpid(pid_, &status, WNOHANG) == pid_) finish(status);
  return ended_;
}

Outcome RunningProgram::wait() {
  int status = 0;
  if (!ended_ && ::waitpid(pid_, &status, 0) == pid_) finish(status);
  return outcome_;
}

Outcome run_dlpipe(const std::vector<std::string>& arguments, const Streams& streams) {
  return RunningProgram(arguments, streams).wait();
}

ScratchDirectory::ScratchDirectory() {
  path_ = (std::filesystem::temp_directory_path() / "dlpipe_test_XXXXXX").string();
  if (::mkdtemp(path_.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
}
ScratchDirectory::~ScratchDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace dlpipe::test
