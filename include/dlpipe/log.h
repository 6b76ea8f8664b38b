// Logging: dlpipe sends its log lines through one function, which a program may replace.
//
// By default warnings and errors go to stderr. Failed calls return a Status or throw Error and don't log; dlpipe logs rarely.
//
// Ownership: the function is a plain pointer; the message belongs to the caller and is valid during the call. Threads: log()
// may be called from any thread, so the function must be thread-safe; replace it before other threads start. Cost: one atomic
// load and one call per line.
#pragma once

#include <string_view>

namespace dlpipe {

enum class LogLevel : unsigned char { kDebug, kInfo, kWarning, kError };
using LogFunction = void (*)(LogLevel level, std::string_view message);

/// Replaces the function that receives log lines and returns the previous one.
LogFunction set_log_function(LogFunction function);
void log(LogLevel level, std::string_view message);

}  // namespace dlpipe
