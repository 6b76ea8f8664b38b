// The man page dlpipe(1), made from the same texts as --help. Pure.
#pragma once

#include <string>

#include "dlpipe/cli/command_text.h"

namespace dlpipe::cli {

/// roff with man(7)'s macros.
std::string man_page(const CommandText& program);

}  // namespace dlpipe::cli
