// What the program says to a mistyped command or option: the area, what was wrong, the nearest known name.
#pragma once

#include <span>
#include <string>

#include "dlpipe/base/error.h"
#include "dlpipe/cli/command_text.h"

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace dlpipe::cli {

/// kMisuse when the first word is no option and names no command.
Status find_unknown_command(std::span<const std::string> arguments, const CommandText& program);
/// kMisuse from CLI11's error; an unknown option is answered with the one that is meant.
Status misuse_from_parse_error(const CLI::ParseError& error, const CLI::App& app, const CommandText& program);

}  // namespace dlpipe::cli
