#include "dlpipe/cli/log_sink.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdio>
#include <cstdlib>

#include "dlpipe/base/log.h"
#include "dlpipe/base/printable.h"
#include "dlpipe/cli/output.h"

namespace dlpipe::cli {

static spdlog::level::level_enum spdlog_level(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

static void log_to_spdlog(LogLevel level, std::string_view message) {
  if (stderr_is_terminal()) std::fputs("\r\x1b[K", stderr);  // over a progress line, which is drawn again
  spdlog::default_logger_raw()->log(spdlog_level(level), "{}", printable_lines(message));
}

void install_log_sink() {
  auto logger = spdlog::stderr_color_mt("dlpipe");
  logger->set_pattern("%^%l%$: %v");
  const char* wanted = std::getenv("DLPIPE_LOG");
  logger->set_level(wanted != nullptr ? spdlog::level::from_str(wanted) : spdlog::level::info);
  spdlog::set_default_logger(std::move(logger));
  set_log_function(log_to_spdlog);
}

}  // namespace dlpipe::cli
