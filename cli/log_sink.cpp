#include "dlpipe/cli/log_sink.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>

#include "dlpipe/base/log.h"
#include "dlpipe/base/printable.h"
#include "dlpipe/base/text.h"
#include "dlpipe/cli/output.h"
#include "dlpipe/cli/stderr_prose.h"

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
  const auto name = spdlog::level::to_string_view(spdlog_level(level));
  const std::string head =
      concat(std::string_view(name.data(), name.size()), ": ");  // as the pattern puts it in front
  const std::string shown = stderr_prose(concat(head, printable_lines(message)));
  spdlog::default_logger_raw()->log(spdlog_level(level), "{}", shown.substr(head.size()));
  if (level == LogLevel::kWarning) keep_warning(message);
}

/// What DLPIPE_LOG says; `usual` where it is unset or empty, or no level's name, which is warned of.
static spdlog::level::level_enum wanted_level(spdlog::level::level_enum usual, bool warns) {
  const char* const variable = std::getenv("DLPIPE_LOG");
  std::string name = variable == nullptr ? "" : variable;
  std::ranges::transform(name, name.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (name.empty()) return usual;
  const auto level = spdlog::level::from_str(name);  // "off" of a word that it doesn't know
  if (level != spdlog::level::off || name == "off") return level;
  if (warns)
    print_warning(concat("dlpipe: DLPIPE_LOG is '", variable,
                         "', which is no level; it may be debug, info, warning or error"));
  return usual;
}

void install_log_sink(bool is_first_process) {
  const auto color = stderr_has_color() ? spdlog::color_mode::always : spdlog::color_mode::never;
  auto logger = std::make_shared<spdlog::logger>(
      "dlpipe", std::make_shared<spdlog::sinks::stderr_color_sink_mt>(color));
  logger->set_pattern("%^%l%$: %v");
  logger->set_level(wanted_level(is_quiet() ? spdlog::level::warn : spdlog::level::info, is_first_process));
  spdlog::set_default_logger(std::move(logger));
  set_log_function(log_to_spdlog);
}

}  // namespace dlpipe::cli
