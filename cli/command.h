// One command of the program: `dlpipe NAME ...`.
//
// Adding one: commands/NAME.cpp defines `extern const CommandRecord NAME_command;`,
// tests/cli/commands/NAME_test.cpp tests it as a user runs it, and `dlpipe_register(command NAME)` in
// cli/CMakeLists.txt puts it into the table. A command parses and prints; the work itself is in run/ or
// below.
//
// Threads: setup and the action run on the main thread. CLI11 is seen by flags.cpp, program.h
// and program.cpp, misuse.cpp and main.cpp alone.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "dlpipe/base/error.h"
#include "dlpipe/base/registry.h"

namespace dlpipe::cli {

class Flags;

struct CommandRecord {
  static constexpr const char* kKind = "command";
  static std::span<const CommandRecord* const> built_in();  // command_table()

  const char* name;
  const char* help;  // one line, shown by `dlpipe --help`
  /// Declares the command's options and answers what runs when they are parsed. The action owns what
  /// the options are bound to:
  ///
  ///   auto options = std::make_shared<Options>();
  ///   flags.add_option("SRC", options->source, "Folder of images").required();
  ///   return [options] { return convert(*options); };
  ///
  /// The Status becomes the exit code (exit_code below), its message the last line on stderr. Exceptions are
  /// caught by main and become a Status too.
  std::function<Status()> (*setup)(Flags& flags);
};

/// The commands of this program, sorted by name, from the generated table.
std::span<const CommandRecord* const> command_table();
using CommandRegistry = Registry<CommandRecord>;

/// Of the program, and in words for --help and the man page.
inline constexpr const char* kExitCodes =
    "0 done, 1 failed or done in part, 2 misuse, 3 stopped by a signal after saving; 130 and 143: ended at "
    "once by Ctrl-C "
    "(SIGINT) or by SIGTERM.";
int exit_code(const Status& status);

}  // namespace dlpipe::cli
