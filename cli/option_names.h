// What else people type for an option (the table of run/config/other_names.h), in terms of a command. Pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/cli/command_text.h"

namespace dlpipe::cli {

/// Other names of an option ("--threads": "--jobs", "--workers") or of a word by its place ("DATA":
/// "--data").
std::vector<std::string> aliases_of(std::string_view name);

/// The words of a command line with other programs' spellings of options written as ours: mpirun's "-np" is "--np".
/// Words behind "--" stay as they are.
std::vector<std::string> spelled_as_ours(std::vector<std::string> words);

/// Where the command stands among `words`: behind the options that every command takes (--quiet, --color WHEN). The end where other
/// options come first, or none is there.
size_t command_place(const std::vector<std::string>& words);

/// "; did you mean '--threads'?" for an option of `command` that `typed` ("--num-workers", "-j") means or is
/// near to in spelling; "" where there is none.
std::string option_suggestion(std::string_view typed, const CommandText& command);

}  // namespace dlpipe::cli
