// Scripts that complete dlpipe's commands, options and values in a shell, made from the same texts as --help. Pure
// functions.
#pragma once

#include <string>

#include "dlpipe/cli/command_text.h"

namespace dlpipe::cli {

std::string bash_completion(const CommandText& program);
std::string zsh_completion(const CommandText& program);
std::string fish_completion(const CommandText& program);

}  // namespace dlpipe::cli
