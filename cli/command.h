// A command of the program, `dlpipe NAME ...`, and the options that it declares. Options are declared once: CLI11 parses them, and
// --help, completion, the man page and suggestions are made from the same table. The commands don't include CLI11's headers, which
// take longer to compile than any command.
//
// To add one: define `extern const CommandRecord NAME_command;` in a file in commands/, test it as a user runs it in
// tests/cli/commands/NAME_test.cpp, and add it to the table with `dlpipe_register(command NAME)` in cli/CMakeLists.txt. A command
// parses and prints; the work itself is in run/ or below.
//
// Main thread. Flags and Flag are handles, copied freely; the Program (command_line.h) owns what they refer to.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/output.h"
#include "dlpipe/error.h"
#include "dlpipe/registry.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace dlpipe::cli {

class Flags;

struct CommandRecord {
  static constexpr const char* kKind = "command";
  static std::span<const CommandRecord* const> built_in();  // command_table()

  const char* name;
  const char* help;  // one line, shown by `dlpipe --help`
  /// Declares the command's options and returns the action, which runs once they are parsed. The action owns the
  /// variables that the options are bound to:
  ///
  ///   auto options = std::make_shared<Options>();
  ///   flags.add_option("SRC", options->source, "Folder of images").required();
  ///   return [options] { return convert(*options); };
  ///
  /// The Status becomes the exit code (exit_code below), its message the last line on stderr. main catches
  /// exceptions and converts them to a Status.
  std::function<Status()> (*setup)(Flags& flags);
};

/// The commands of this program, sorted by name, from the generated table.
std::span<const CommandRecord* const> command_table();
using CommandRegistry = Registry<CommandRecord>;

/// The exit codes of the program, in words for --help and the man page.
inline constexpr const char* kExitCodes =
    "0 success, 1 failure or partial failure, 2 wrong usage, 3 stopped by a signal after saving; 130 and "
    "143: ended at once by Ctrl-C (SIGINT) or by SIGTERM; 135: ended by SIGBUS, because a dataset in use was "
    "truncated or its disk failed.";
int exit_code(const Status& status);

/// The group of the options that every command has; it comes last.
inline constexpr const char* kEveryCommand = "Every command";

/// How --help, completion and the man page show an option or a positional argument (called "word" here).
struct OptionText {
  std::string name;                  // "--threads", or "DATA" for a word
  std::vector<std::string> aliases;  // other accepted names: "--jobs", "-o"
  std::string value;                 // stands for its value: "N"; "" for a switch and for a word
  std::string default_text;          // "" for none
  std::string help;
  std::string group;                 // heading in --help-all; "" for the command's own
  std::vector<std::string> choices;  // the allowed values; empty: any
  bool is_required = false;
  bool is_optional = false;  // for a word: the command does something without it
  bool is_list = false;      // may be given several times
  bool is_hidden = false;    // accepted but not listed: the other direction of a switch

  bool is_word() const { return !name.starts_with("-"); }
  /// A word that may be given as a named option instead: "DATA" as "--data".
  bool has_twin() const { return is_word() && !aliases.empty(); }
};

struct CommandText {
  std::string name;  // as typed after "dlpipe": "train", "bench train"; "" for the program itself
  std::string help;  // one line
  std::deque<OptionText> options;  // a deque: a Flag keeps the address of its option
  std::deque<CommandText> parts;
  std::vector<std::string>
      first;           // the options that --help shows, in this order; empty: all. --help-all shows all
  std::string footer;  // the last lines of --help

  /// The option with this name or alias, with or without its dashes; null if there is none.
  const OptionText* find(std::string_view option_name) const;
};

/// The maximum of most commands' --threads, as in train (run/config) and in a Loader. Ingest allows more (run/ingest).
inline constexpr int kMostThreads = 1024;

class Flag {
 public:
  Flag(CLI::Option* option, OptionText* text) : option_(option), text_(text) {}
  Flag& required();
  /// For a word: usage shows that the command does something without it.
  Flag& optional();
  /// A value outside of the range is misuse.
  Flag& range(int low, int high);
  Flag& range(double low, double high);
  /// Any other value is misuse. --help lists the choices after the help text.
  Flag& choices(const std::vector<std::string>& words);
  /// The value is a file to write. "-" is stdout and becomes kStdout (output.h). An empty name is misuse, and so is another
  /// ending, which would contradict the file's contents. A name without an ending is accepted.
  Flag& writes_file(const std::vector<std::string>& allowed);
  /// What stands for the value in --help; default: N, X or TEXT.
  Flag& type_name(const std::string& name);
  /// Heading in --help-all.
  Flag& group(const std::string& name);
  /// Values that shells complete; others are accepted, too.
  Flag& completes(const std::vector<std::string>& words);
  /// An empty value is misuse: it comes from an unset variable, and must not count as left out.
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
  /// Declares the options that every command has: --help, --quiet, --color.
  Flags(CLI::App* app, CommandText* text, OutputOptions* output);

  /// "--name" for an option, "NAME" for a word; both also get the other names in run/config/other_names.h.
  /// `value` holds the default, which --help shows, and is set when the command line is parsed. T:
  /// std::string, int, int64_t, uint64_t, double, std::vector<std::string> (a word: all that follow; an
  /// option: one value each time that it is given). If an option of another type is given several times, the last one counts.
  template <class T>
  Flag add_option(const std::string& name, T& value, const std::string& help);
  Flag add_flag(const std::string& name, bool& value, const std::string& help);
  /// An option or a word whose text is passed to `set`. If it is given several times: only the last one, or as a list all, joined
  /// by commas.
  Flag add_setter(const std::string& name, std::function<void(const std::string&)> set,
                  const std::string& help, const std::string& default_text, bool is_list = false);
  /// The pair `yes` and `no` ("--nesterov", "--no-nesterov"); the last one given counts. --help shows one of them,
  /// `yes` if `shows_yes`.
  Flag add_switch(const std::string& yes, const std::string& no, std::function<void(bool)> set,
                  const std::string& help, bool shows_yes);
  /// --version, which prints `line`.
  void add_version(const std::string& line);

  /// A part of the command with its own options: `dlpipe bench pipeline`.
  Flags add_part(const std::string& name, const std::string& help);
  /// One part must be given.
  void require_part();
  /// Whether this part was given.
  bool parsed() const;

  /// --help shows only these options ("--out"), in this order; --help-all shows the rest, too.
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
