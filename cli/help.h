// The texts of --help, wrapped to the terminal, and the detection of help requests. Pure except for the terminal's width.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command.h"
#include "dlpipe/error.h"

namespace dlpipe::cli {

/// A request for help: `dlpipe train --help ops`, `dlpipe help train ops`, `dlpipe train --help-all`.
struct HelpRequest {
  std::vector<std::string> words;  // commands, parts and topics, in the order typed
  bool all = false;                // --help-all
};

/// The request for help by -h, --help or --help-all in `arguments`; nothing if there is none.
std::optional<HelpRequest> find_help_request(const CommandText& program,
                                             std::span<const std::string> arguments);

/// The requested text. kMisuse, with a suggestion, for an unknown command or topic.
Result<std::string> answer_help(const CommandText& program, const HelpRequest& request);

/// The help of a command, or of the program if `command` has no name.
std::string help_text(const CommandText& command, bool all, size_t width);

/// "dlpipe eval --ckpt TEXT [OPTIONS] DATA"
std::string usage(const CommandText& command);
/// An option as help and the man page write it: "--batch N", "-o, --out TEXT", "DATA", "--freeze LIST".
std::string signature(const OptionText& option);
/// Its help text with its default, its choices and whether it is required.
std::string full_help(const OptionText& option);

/// A list such as `dlpipe --help ops`, made from the registered records.
struct HelpTopic {
  const char* name;
  const char* help;    // one line
  const char* option;  // the option of `train` whose values it lists: "model"; "" for none
  std::string (*text)();
  std::vector<std::string> (*words)();  // the names in `text`
};

/// Sorted by name.
std::span<const HelpTopic> help_topics();

}  // namespace dlpipe::cli
