// What the program says to a mistyped command or option: the area, what was wrong, the nearest known name.
#pragma once

#include <span>

#include "dlpipe/base/error.h"
#include "dlpipe/cli/command.h"

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace dlpipe::cli {

/// kMisuse when the first word that isn't an option names no command.
Status find_unknown_command(int argc, char** argv, std::span<const CommandRecord* const> commands);
/// kMisuse from CLI11's error; an unknown option suggests the nearest of the command's.
Status misuse_from_parse_error(const CLI::ParseError& error, const CLI::App& app);

}  // namespace dlpipe::cli
