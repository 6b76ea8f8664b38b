// What --help prints, wrapped to the terminal, and which help was asked for. Pure but for the terminal's
// width.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dlpipe/base/error.h"
#include "dlpipe/cli/command_text.h"

namespace dlpipe::cli {

/// A request for help: `dlpipe train --help ops`, `dlpipe help train ops`, `dlpipe train --help-all`.
struct HelpRequest {
  std::vector<std::string> words;  // commands, parts and topics, in the order that they were typed
  bool all = false;                // --help-all
};

/// What of `arguments` asks for help by -h, --help or --help-all; nothing where none of them does.
std::optional<HelpRequest> find_help_request(const CommandText& program,
                                             std::span<const std::string> arguments);

/// The text that answers it; kMisuse names what was meant where there is no such command or topic.
Result<std::string> answer_help(const CommandText& program, const HelpRequest& request);

/// Help of a command, or of the program where it has no name.
std::string help_text(const CommandText& command, bool all, size_t width);

/// "dlpipe eval --ckpt TEXT [OPTIONS] DATA"
std::string usage(const CommandText& command);
/// How an option stands in help and man page: "--batch N", "-o, --out TEXT", "DATA", "--freeze LIST".
std::string signature(const OptionText& option);
/// Its help with default, choices and whether it must be given.
std::string full_help(const OptionText& option);

}  // namespace dlpipe::cli
