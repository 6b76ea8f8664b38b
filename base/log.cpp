#include "dlpipe/base/log.h"

#include <atomic>
#include <cstdio>

#include "dlpipe/base/printable.h"

namespace dlpipe {

namespace {
void log_to_stderr(LogLevel level, std::string_view message) {
  if (level < LogLevel::kWarning) return;
  std::fprintf(stderr, "%s: %s\n", level == LogLevel::kWarning ? "warning" : "error",
               printable_lines(message).c_str());
}
std::atomic<LogFunction> log_function{log_to_stderr};
}  // namespace

LogFunction set_log_function(LogFunction function) {
  return log_function.exchange(function != nullptr ? function : log_to_stderr);
}
void log(LogLevel level, std::string_view message) {
  log_function.load()(level, message);
}

}  // namespace dlpipe
