// Messages for people, through one function pointer: the program points it at spdlog, a host program at its
// own logger. May be called from any thread. Libraries log rarely: errors travel as Status, not as log lines.
#pragma once

#include <string_view>

namespace dlpipe {

enum class LogLevel : unsigned char { kDebug, kInfo, kWarning, kError };
using LogFunction = void (*)(LogLevel level, std::string_view message);

/// Replaces the sink (default: warnings and errors to stderr) and answers the former one.
LogFunction set_log_function(LogFunction function);
void log(LogLevel level, std::string_view message);

}  // namespace dlpipe
