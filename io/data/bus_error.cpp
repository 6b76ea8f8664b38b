#include "io/data/bus_error.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <string_view>

namespace dlpipe::data {

namespace {

struct sigaction former {};

// Two threads may get a bus error at once: the second must not end the program while the first is still printing.
std::atomic<bool> is_met = false;
std::atomic<bool> is_explained = false;

// Everything below is called in the handler, by one thread.

void print(std::string_view text) {
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
}

/// Reads a number in hex and moves `text` past it and the character after it.
uintptr_t take_hex(std::string_view& text) {
  uintptr_t value = 0;
  size_t at = 0;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    if (digit < 0) break;
    value = value * 16 + static_cast<uintptr_t>(digit);
  }
  text.remove_prefix(at < text.size() ? at + 1 : at);
  return value;
}

/// The file that is mapped at `address`, as /proc/self/maps names it; "" if none is. Valid until the next call.
std::string_view file_at(uintptr_t address) {
  static char line[8192];  // a path has at most 4096 bytes
  static char block[4096];
  size_t length = 0;
  std::string_view found;
  const int maps = ::open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  for (ssize_t got = 0; found.empty() && maps >= 0 && (got = ::read(maps, block, sizeof block)) > 0;) {
    for (const char c : std::string_view(block, static_cast<size_t>(got))) {
      if (c != '\n') {
        if (length < sizeof line) line[length++] = static_cast<unsigned char>(c) < ' ' ? '?' : c;
        continue;
      }
      // BEGIN-END rights offset device inode      /PATH
      std::string_view rest(line, length);
      length = 0;
      const uintptr_t begin = take_hex(rest), end = take_hex(rest);
      const size_t path = rest.find('/');
      if (address < begin || address >= end || path == std::string_view::npos) continue;
      found = rest.substr(path);
      break;
    }
  }
  if (maps >= 0) ::close(maps);
  return found;
}

/// Does what the process did with SIGBUS before explain_bus_errors().
void hand_over(int signal, siginfo_t* info, void* context) {
  if ((former.sa_flags & SA_SIGINFO) != 0) return former.sa_sigaction(signal, info, context);
  if (former.sa_handler != SIG_DFL && former.sa_handler != SIG_IGN) return former.sa_handler(signal);
  ::signal(SIGBUS, SIG_DFL);                // the load is repeated, and ends the program
  if (info->si_code <= 0) ::raise(SIGBUS);  // there was no load: it was sent
}

void handle(int signal, siginfo_t* info, void* context) {
  const int interrupted = errno;  // belongs to the interrupted code
  if (is_met.exchange(true)) {
    while (!is_explained.load()) {
    }
  } else {
    const std::string_view file =
        info->si_code > 0 ? file_at(reinterpret_cast<uintptr_t>(info->si_addr)) : std::string_view();
    if (file.ends_with("/data.mdb") || file.ends_with("/data.mdb (deleted)")) {
      print("\ndlpipe: [dataset] ");
      print(file);
      print(
          ": a page could not be read: the file became shorter or was overwritten while it was in use, or "
          "its "
          "disk failed; look for disk errors, check it with `dlpipe verify DATA`, copy or ingest it again; a "
          "run can be resumed with --resume\n");
    }
    is_explained.store(true);
  }
  errno = interrupted;
  hand_over(signal, info, context);
}

}  // namespace

void explain_bus_errors() {
  static const bool is_installed = [] {
    ::sigaction(SIGBUS, nullptr, &former);
    struct sigaction action {};
    action.sa_sigaction = handle;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    return ::sigaction(SIGBUS, &action, nullptr) == 0;
  }();
  (void)is_installed;
}

}  // namespace dlpipe::data
