// The program's version and the build behind it.
#pragma once

#include <string>

namespace dlpipe::cli {
/// "dlpipe 0.1.0 (release, GCC 12.2.0)"
std::string version_line();
}  // namespace dlpipe::cli
