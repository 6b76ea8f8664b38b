#include "dlpipe/cli/program.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "dlpipe/base/text.h"
#include "dlpipe/cli/command.h"
#include "dlpipe/cli/flags.h"
#include "dlpipe/run/record/build_info.h"

namespace dlpipe::cli {

std::span<const CommandRecord* const> CommandRecord::built_in() {
  return command_table();
}

std::unique_ptr<Program> make_program() {
  auto program = std::make_unique<Program>();
  program->text.help = "From a folder of raw files to a trained model, with every second accounted for.";
  program->app.name("dlpipe");
  Flags own(&program->app, &program->text, &program->output);
  own.add_version(run::build_line());
  program->app.require_subcommand(0, 1);
  for (const CommandRecord* record : CommandRegistry::builtin().records()) {
    CommandText& text = program->text.parts.emplace_back();
    text.name = record->name;
    text.help = record->help;
    CLI::App* const app = program->app.add_subcommand(record->name, record->help);
    Flags flags(app, &text, &program->output);
    program->actions[app] = record->setup(flags);
  }
  return program;
}

const CommandText* find_command(const CommandText& program, std::span<const std::string> words) {
  const CommandText* found = &program;
  for (const std::string& word : words) {
    const std::string name = found->name.empty() ? word : concat(found->name, " ", word);
    const auto at = std::find_if(found->parts.begin(), found->parts.end(),
                                 [&](const CommandText& part) { return part.name == name; });
    if (at == found->parts.end()) return nullptr;
    found = &*at;
  }
  return found;
}

}  // namespace dlpipe::cli
