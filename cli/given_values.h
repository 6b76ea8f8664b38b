// What the words of a command line give to its options, by the table that the command declared, before CLI11 parses them. Pure
// functions.
#pragma once

#include <string>
#include <vector>

#include "dlpipe/base/error.h"
#include "dlpipe/cli/command_text.h"

namespace dlpipe::cli {

/// `--out=`, as an unset variable leaves it, is --out and an empty word, where CLI11 would give it the next word. kMisuse: the word in
/// the place of a value is an option of the command (`--out --compile`; who means it writes --out=--compile), or a switch has
/// another value than true or false.
Result<std::vector<std::string>> with_values_apart(const std::vector<std::string>& words,
                                                   const CommandText& program);

}  // namespace dlpipe::cli
