#include "dlpipe/cli/misuse.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "dlpipe/base/refuse.h"
#include "dlpipe/base/shell_word.h"
#include "dlpipe/base/text.h"
#include "dlpipe/cli/option_names.h"
#include "dlpipe/cli/program.h"
#include "dlpipe/run/input/path_kind.h"

namespace dlpipe::cli {

namespace {

std::vector<std::string> part_names(const CommandText& command) {
  std::vector<std::string> names;
  for (const CommandText& part : command.parts) names.push_back(split(part.name, ' ').back());
  return names;
}

const CommandText& innermost(const CLI::App& app, const CommandText& program) {
  std::vector<std::string> words;
  for (const CLI::App* current = &app; !current->get_subcommands().empty();) {
    current = current->get_subcommands().front();
    words.push_back(current->get_name());
  }
  const CommandText* const found = find_command(program, words);
  return found != nullptr ? *found : program;
}

// What a command takes by its place, for who gives one word too many: "; dlpipe eval takes DATA, and the model by --ckpt".
std::string words_text(const CommandText& command) {
  std::string words;
  for (const OptionText& option : command.options) {
    if (option.is_word() && !option.is_hidden) words += concat(words.empty() ? "" : " and ", option.name);
  }
  if (words.empty()) return "";
  const OptionText* const model = command.find("--ckpt");
  const bool is_by_name = model != nullptr && !model->is_word();
  return concat(": it takes ", words, is_by_name ? ", and the model or run by --ckpt" : "");
}

/// The command that `app` was asked for, and its options as they were parsed.
const CLI::App& innermost_app(const CLI::App& app) {
  const CLI::App* current = &app;
  while (!current->get_subcommands().empty()) current = current->get_subcommands().front();
  return *current;
}

// `predict RUN PICTURE`: a model among the words of a command that takes it by --ckpt, which wasn't given. "" where there is
// none.
std::string misplaced_model(const CLI::App& app, const CommandText& command,
                            const std::vector<std::string>& extras) {
  const OptionText* const model = command.find("--ckpt");
  if (model == nullptr || model->is_word()) return "";
  std::vector<std::string> words;
  for (const CLI::Option* option : innermost_app(app).get_options()) {
    if (option->check_lname("ckpt") && option->count() > 0) return "";
    if (option->get_positional())
      words.insert(words.end(), option->results().begin(), option->results().end());
  }
  words.insert(words.end(), extras.begin(), extras.end());
  const auto found = std::find_if(words.begin(), words.end(), [](const std::string& word) {
    return !word.starts_with('-') && run::is_kind(word, run::Wanted::kModel);
  });
  if (found == words.end()) return "";
  constexpr size_t kShown = 3;  // of many pictures
  std::string meant = concat("dlpipe ", command.name, " --ckpt ", shell_word(*found));
  size_t others = 0;
  for (auto word = words.begin(); word != words.end(); ++word) {
    if (word == found || word->starts_with('-')) continue;
    if (++others <= kShown) meant += concat(" ", shell_word(*word));
  }
  if (others > kShown) meant += " ...";
  return concat("'", *found, "' is ", run::kind_of(*found)->name, ", and ", command.name,
                " takes the model by --ckpt: ", meant);
}

// CLI11's words for what a value isn't, said as everything else here.
std::string plain_words(const CLI::ParseError& error, const CommandText& command) {
  std::string text = error.what();
  const std::string name = split(split(text, ':').front(), ' ').front();  // most begin with the option
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr && command.find(name) != nullptr)
    return concat(name, " needs a value (", command.find(name)->value, ")");
  if (dynamic_cast<const CLI::ConversionError*>(&error) != nullptr) {
    // "Could not convert: --batch = many"
    const size_t option = text.find("--"), equals = text.find(" = ");
    if (option != std::string::npos && equals != std::string::npos && option < equals) {
      const OptionText* const of = command.find(text.substr(option, equals - option));
      const bool is_whole = of != nullptr && of->value == "N";
      return concat(text.substr(option, equals - option), " '", text.substr(equals + 3), "' is no ",
                    is_whole ? "whole number" : "number");
    }
  }
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr && command.find(name) != nullptr)
    return concat(name, " is missing (", command.find(name)->help, ")");
  if (const OptionText* const of = command.find(name); of != nullptr && text.starts_with(name + ":")) {
    const auto letter = std::find_if(of->aliases.begin(), of->aliases.end(),
                                     [](const std::string& alias) { return alias.size() == 2; });
    if (letter != of->aliases.end()) return concat(name, " (", *letter, ")", text.substr(name.size()));
  }
  return text;
}

}  // namespace

Status find_unknown_command(std::span<const std::string> arguments, const CommandText& program) {
  if (arguments.empty() || arguments[0].starts_with('-')) return {};
  if (find_command(program, arguments.first(1)) != nullptr) return {};
  if (arguments[0] == "convert-augment") {
    return misuse("cli", "convert-augment is a command of the Python package: python -m dlpipe ",
                  "convert-augment FILE");
  }
  if (const auto kind = run::kind_of(arguments[0]))  // `dlpipe PICTURES`
    return misuse("cli", "there is no command '", arguments[0], "'; it is ", kind->name, ": ", kind->advice);
  return misuse("cli", "there is no command '", arguments[0], "'",
                suggestion(arguments[0], part_names(program)));
}

Status misuse_from_parse_error(const CLI::ParseError& error, const CLI::App& app,
                               const CommandText& program) {
  const CommandText& command = innermost(app, program);
  const std::string where = concat("dlpipe", command.name.empty() ? "" : " ", command.name);
  const std::string area = concat("[", command.name.empty() ? "cli" : command.name, "] ");
  const std::string help = concat("; see '", where, " --help'");
  const std::vector<std::string> extras = app.remaining(true);
  if (const std::string meant = misplaced_model(app, command, extras); !meant.empty())
    return {ErrorCode::kMisuse, concat(area, meant)};
  // A mistyped part (`bench trian`) is told as a part that is missing; what was typed is what matters.
  const bool is_mistyped_part = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr && !extras.empty();
  if (is_mistyped_part || dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    const std::string extra = extras.empty() ? std::string("?") : split(extras.front(), '=').front();
    if (extra.starts_with('-')) {
      return {ErrorCode::kMisuse,
              concat(area, "there is no option '", extra, "'", option_suggestion(extra, command), help)};
    }
    const std::vector<std::string> parts = part_names(command);
    const std::string near = parts.empty() ? words_text(command) : suggestion(extra, parts);
    return {ErrorCode::kMisuse, concat(area, "unexpected argument '", extra, "'", near, help)};
  }
  return {ErrorCode::kMisuse, concat(area, plain_words(error, command), help)};
}

}  // namespace dlpipe::cli
