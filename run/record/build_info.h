// What this library was built as and from; stands in receipts, `dlpipe --version` and `dlpipe info`.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace dlpipe::run {

/// "dlpipe 0.1.0 (Release, GNU 12.2.0, oneDNN 2.6.3)"
std::string build_line();
/// Name and version of the libraries that it was built against.
std::vector<std::pair<std::string, std::string>> library_versions();

}  // namespace dlpipe::run
