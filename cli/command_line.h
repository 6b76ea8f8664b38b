// Parses argv into a command's options. Every command declares its options (command.h). A wrong word on the command line becomes an
// error that names the fix. Main thread.
#pragma once

#include <CLI/App.hpp>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/output.h"
#include "dlpipe/error.h"

namespace dlpipe::cli {

struct Program {
  CLI::App app;
  CommandText text;  // the program itself; its parts are the commands
  std::map<const CLI::App*, std::function<Status()>> actions;
  OutputOptions output;

  /// The command that was parsed; null if there is none.
  const CLI::App* command() const;
};

/// Lets every command declare its options. The Program must not be moved, because CLI11 keeps addresses.
std::unique_ptr<Program> make_program();

/// The command that `words` name ("bench", "train"); null if there is no such command.
const CommandText* find_command(const CommandText& program, std::span<const std::string> words);

/// Replaces other programs' spellings of options by ours: mpirun's "-np" becomes "--np". Words after "--" stay unchanged.
std::vector<std::string> spelled_as_ours(std::vector<std::string> words);

/// The index of the command among `words`, after the options that every command has (--quiet, --color WHEN). words.size() if other
/// options come first, or if there is no command.
size_t command_place(const std::vector<std::string>& words);

/// kMisuse if the first word is neither an option nor a command.
Status find_unknown_command(std::span<const std::string> words, const CommandText& program);

/// Sets the options of the command that `words` name. kMisuse names the wrong word, the problem and the option that is probably meant.
/// With --version, `version` becomes the line to print.
Status parse(Program& program, const std::vector<std::string>& words, std::string& version);

/// Prints a note about options of the parsed command that are given several times: the last one counts.
void note_repeated_options(const Program& program);

}  // namespace dlpipe::cli
