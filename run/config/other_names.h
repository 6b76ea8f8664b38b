// One option has one name, on command lines, in config files and in Python. This table holds what else people type for it:
// other names that command lines accept, and words of other programs that are answered with the option that is meant.
// Pure functions.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dlpipe::run {

struct OtherNames {
  const char* name;                   // "--threads", or "DATA" for a word by its place
  std::vector<const char*> aliases;   // accepted on command lines
  std::vector<const char*> meanings;  // answered by naming the option
  const char* value = "";             // what to give it then: "--gpu" means "--device cuda"
};

/// A word may be meant for several options: the first that the command has is named.
std::span<const OtherNames> other_names();

/// As the table has words: "--Weight_Decay" is weight-decay.
std::string plain_name(std::string_view name);

/// "; it is called 'batch'" for "batch_size", "; did you mean 'batch'?" for what is near to an option of TrainConfig in meaning or
/// spelling, or all options. A config file takes no other names: files are kept, and then compared. `is_off`: its value is false, so
/// that "gpu" doesn't mean "cuda". "no_nesterov" is answered with the opposite of its value. `before`: the "--" of options outside
/// of files.
std::string config_suggestion(std::string_view typed, bool is_off = false, std::string_view before = "");

}  // namespace dlpipe::run
