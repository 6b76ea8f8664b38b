// One option has one name, on command lines, in config files and in Python. This file holds the other names that command lines
// accept, and a short list of what users of PyTorch type, so that an error names the intended option. Pure functions.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dlpipe::run {

/// Other names that a command line accepts for an option.
struct OtherNames {
  const char* name;                  // "--threads", or "DATA" for a positional argument
  std::vector<const char*> aliases;  // "--jobs", "--workers"
};
std::span<const OtherNames> other_names();

/// An option of another program, which is refused with its name here.
struct ForeignName {
  const char* typed;       // as plain_name writes it
  const char* option;      // "--device"
  const char* value = "";  // the value to suggest: "--gpu" means "--device cuda"
};
std::span<const ForeignName> foreign_names();

/// A name as the tables write it: "--Weight_Decay" is weight-decay.
std::string plain_name(std::string_view name);

/// The end of a message about an unknown name: "; it is called 'batch'" for an alias of an option, which a config file does not
/// accept; "; did you mean 'batch'?" for a foreign or misspelt name; else the list of all options. "no_nesterov" is called
/// 'nesterov', with the opposite value. `is_off`: the value is false, so that "gpu" does not mean "cuda". `before`: the "--" of
/// options outside of files.
std::string config_suggestion(std::string_view typed, bool is_off = false, std::string_view before = "");

}  // namespace dlpipe::run
