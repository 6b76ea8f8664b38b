// What a command is told to people as: the one table that --help, shell completion, the man page and
// suggestions are made from. flags.h fills it while a command declares its options. Values only; no threads.
#pragma once

#include <deque>
#include <string>
#include <vector>

namespace dlpipe::cli {

/// The group of what every command takes; it stands last.
inline constexpr const char* kEveryCommand = "Every command";

/// An option, or a word that has its meaning by its place.
struct OptionText {
  std::string name;                  // "--threads", or "DATA" for a word by its place
  std::vector<std::string> aliases;  // other names that are accepted: "--jobs", "-o"
  std::string value;                 // what stands for its value: "N"; "" for a switch and for a word
  std::string default_text;          // "" for none
  std::string help;
  std::string group;                 // heading in --help-all; "" for the command's own
  std::vector<std::string> choices;  // the words that the value may be; empty: any
  bool is_required = false;
  bool is_optional = false;  // of a word: the command does something without it
  bool is_list = false;      // may be given several times
  bool is_hidden = false;    // accepted, listed nowhere: the other direction of a switch

  bool is_word() const { return !name.starts_with("-"); }
  /// A word that may be given by a name instead: "DATA" by "--data".
  bool has_twin() const { return is_word() && !aliases.empty(); }
};

struct CommandText {
  std::string name;  // as it is typed after "dlpipe": "train", "bench train"; "" for the program itself
  std::string help;  // one line
  std::deque<OptionText> options;  // a deque: who declares an option keeps its address
  std::deque<CommandText> parts;
  std::vector<std::string>
      first;           // the options that --help shows, in this order; empty: all. --help-all shows all
  std::string footer;  // the last lines of --help

  /// The option of this name or alias, with or without its dashes; null where there is none.
  const OptionText* find(std::string_view option_name) const;
};

}  // namespace dlpipe::cli
