// The whole program as it stands before anything is parsed: every command with its options, its texts for
// people and what it does. Main thread.
#pragma once

#include <CLI/App.hpp>
#include <deque>
#include <functional>
#include <map>
#include <span>

#include "dlpipe/base/error.h"
#include "dlpipe/cli/command_text.h"
#include "dlpipe/cli/output.h"

namespace dlpipe::cli {

struct Program {
  CLI::App app;
  CommandText text;  // the program itself; its parts are the commands
  std::map<const CLI::App*, std::function<Status()>> actions;
  OutputOptions output;
};

/// Has every command declare its options. What it answers stays where it is: CLI11 keeps addresses.
std::unique_ptr<Program> make_program();

/// The text of `words` ("bench", "train"); null where there is no such command.
const CommandText* find_command(const CommandText& program, std::span<const std::string> words);

}  // namespace dlpipe::cli
