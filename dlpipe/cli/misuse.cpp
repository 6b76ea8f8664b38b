#include "dlpipe/cli/misuse.h"

#include <CLI/CLI.hpp>

#include "dlpipe/base/text.h"

namespace dlpipe::cli {

Status find_unknown_command(int argc, char** argv, std::span<const CommandRecord* const> commands) {
  if (argc < 2 || argv[1][0] == '-') return {};
  std::vector<std::string> names;
  for (const CommandRecord* command : commands) {
    if (std::string_view(command->name) == argv[1]) return {};
    names.emplace_back(command->name);
  }
  return {ErrorCode::kMisuse,
          concat("[cli] there is no command '", argv[1], "'", suggestion(argv[1], names))};
}

static const CLI::App& innermost(const CLI::App& app, std::string& words) {
  const CLI::App* current = &app;
  words = "dlpipe";
  while (!current->get_subcommands().empty()) {
    current = current->get_subcommands().front();
    words += " " + current->get_name();
  }
  return *current;
}

Status misuse_from_parse_error(const CLI::ParseError& error, const CLI::App& app) {
  std::string where;  // as it is typed: "dlpipe bench train"
  const CLI::App& command = innermost(app, where);
  const std::string help = concat("; see '", where, " --help'");
  const std::vector<std::string> extras = app.remaining(true);
  // A mistyped part (`bench trian`) is told as a part that is missing; what was typed is what matters.
  const bool is_mistyped_part = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr && !extras.empty();
  if (is_mistyped_part || dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    const std::string extra = extras.empty() ? std::string("?") : split(extras.front(), '=').front();
    if (!extra.starts_with('-')) {
      std::vector<std::string> parts;
      for (const CLI::App* part : command.get_subcommands([](const CLI::App*) { return true; })) {
        parts.push_back(part->get_name());
      }
      const std::string near = parts.empty() ? "" : suggestion(extra, parts);
      return {ErrorCode::kMisuse, concat("[", where, "] unexpected argument '", extra, "'", near, help)};
    }
    std::vector<std::string> names;
    for (const CLI::Option* option : command.get_options()) {
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    }
    std::string near = nearest_name(extra, names);
    if (!near.empty()) near = concat("; did you mean '", near, "'?");
    return {ErrorCode::kMisuse, concat("[", where, "] there is no option '", extra, "'", near, help)};
  }
  return {ErrorCode::kMisuse, concat("[", where, "] ", error.what(), help)};
}

}  // namespace dlpipe::cli
