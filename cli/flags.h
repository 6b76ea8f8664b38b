// A command's options: declared once, parsed by CLI11 and told to people from the same table
// (command_text.h). CLI11's headers stay out of the commands: they take longer to compile than any command.
//
// Flags and Flag are handles, copied freely; what they stand for belongs to the Program. Main thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dlpipe/cli/command_text.h"
#include "dlpipe/cli/output.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace dlpipe::cli {

/// Of most commands' --threads; what train takes (run/config/config_table.cpp), and a Loader. Ingest takes more
/// (run/ingest/options.cpp).
inline constexpr int kMostThreads = 1024;

class Flag {
 public:
  Flag(CLI::Option* option, OptionText* text) : option_(option), text_(text) {}
  Flag& required();
  /// Of a word: usage shows that the command does something without it.
  Flag& optional();
  /// Misuse outside of it.
  Flag& range(int low, int high);
  Flag& range(double low, double high);
  /// Misuse for any other word. --help lists them behind the help text.
  Flag& choices(const std::vector<std::string>& words);
  /// The value is a file to write. "-" is stdout and becomes kStdout (output.h). Misuse for a name with another ending, which
  /// would say that the file holds what it doesn't, and for an empty one. A name without any is taken.
  Flag& writes_file(const std::vector<std::string>& allowed);
  /// What stands for the value in --help; by default N, X or TEXT.
  Flag& type_name(const std::string& name);
  /// Heading in --help-all.
  Flag& group(const std::string& name);
  /// Words that shells complete the value to; others are accepted, too.
  Flag& completes(const std::vector<std::string>& words);
  /// Accepted, but listed nowhere.
  Flag& hidden();
  /// Misuse where it is given and empty, as by an unset variable, which must not count as left out.
  Flag& not_empty();
  /// Misuse together with `other`.
  Flag& excludes(const Flag& other);
  /// Misuse without `other`.
  Flag& needs(const Flag& other);

 private:
  CLI::Option* option_;
  OptionText* text_;
};

class Flags {
 public:
  /// Declares what every command takes: --help, --quiet, --color.
  Flags(CLI::App* app, CommandText* text, OutputOptions* output);

  /// "--name", or "NAME" for a word by its place; both take the other names that option_names.h gives them.
  /// `value` holds the default, which --help shows, and is set when the command line is parsed. T:
  /// std::string, int, int64_t, uint64_t, double, std::vector<std::string> (a word: all that follow; an
  /// option: one each time that it is given). Of an option of another type that is given several times the last one counts.
  template <class T>
  Flag add_option(const std::string& name, T& value, const std::string& help);
  Flag add_flag(const std::string& name, bool& value, const std::string& help);
  /// An option, or a word, whose text goes to `set`; of several only the last, or as a list all with commas
  /// between.
  Flag add_setter(const std::string& name, std::function<void(const std::string&)> set,
                  const std::string& help, const std::string& default_text, bool is_list = false);
  /// `yes` and `no` ("--nesterov", "--no-nesterov"), of which the last that is given counts. --help shows the one that
  /// `shows_yes` says.
  Flag add_switch(const std::string& yes, const std::string& no, std::function<void(bool)> set,
                  const std::string& help, bool shows_yes);
  /// --version, which says `line`.
  void add_version(const std::string& line);

  /// A part of the command with options of its own: `dlpipe bench pipeline`.
  Flags add_part(const std::string& name, const std::string& help);
  /// One part must be given.
  void require_part();
  /// Whether this part was.
  bool parsed() const;

  /// --help shows these options ("--out") alone, in this order; --help-all shows the rest, too.
  void show_first(const std::vector<std::string>& names);
  /// The last lines of --help.
  void footer(const std::string& text);

 private:
  OptionText& add_text(const std::string& name, const std::string& help, const std::string& value);
  Flag with_twin(CLI::Option* word, CLI::Option* named, OptionText& text);
  CLI::App* app_;
  CommandText* text_;
  OutputOptions* output_;
  std::shared_ptr<std::vector<std::function<void()>>> checks_;  // after parsing; they throw Error
};

}  // namespace dlpipe::cli
