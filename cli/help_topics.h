// `dlpipe --help ops` and the like: tables made from the very records that the program builds from.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/base/error.h"

namespace dlpipe::cli {

struct HelpTopic {
  const char* name;
  const char* help;    // one line
  const char* option;  // of `train` whose values the topic explains: "model"; "" for none
  std::string (*text)();
  std::vector<std::string> (*words)();  // the names that `text` explains
};

/// Sorted by name.
std::span<const HelpTopic> help_topics();
/// Null where there is none of that name.
const HelpTopic* find_help_topic(std::string_view name);

}  // namespace dlpipe::cli
