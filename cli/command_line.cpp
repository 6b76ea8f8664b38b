#include "cli/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <optional>

#include "base/messages.h"
#include "base/text.h"
#include "dlpipe/error.h"
#include "run/config/other_names.h"
#include "run/input/path_kind.h"
#include "run/record/receipt.h"

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

const CLI::App* Program::command() const {
  const auto parsed = app.get_subcommands();
  return parsed.empty() ? nullptr : parsed.front();
}

// Words, before they are parsed.

size_t command_place(const std::vector<std::string>& words) {
  for (size_t i = 0; i < words.size(); ++i) {
    if (!words[i].starts_with('-')) return i;
    if (words[i] == "--color")
      ++i;
    else if (words[i] != "--quiet" && !words[i].starts_with("--color="))
      break;
  }
  return words.size();
}

std::vector<std::string> spelled_as_ours(std::vector<std::string> words) {
  // A parser of options reads one dash and several letters as several options, so these can't be aliases.
  for (std::string& word : words) {
    if (word == "--") break;
    if (word == "-np") word = "--np";
  }
  // `launch --np 2 train --data D`: the words after the command belong to the command.
  const auto command = std::ranges::find(words, "train");
  const size_t place = command_place(words);
  const bool is_launch = place < words.size() && words[place] == "launch";
  if (is_launch && command != words.end() && std::find(words.begin(), command, "--") == command)
    words.insert(command, "--");
  return words;
}

static std::vector<std::string> part_names(const CommandText& command) {
  std::vector<std::string> names;
  for (const CommandText& part : command.parts) names.push_back(split(part.name, ' ').back());
  return names;
}

Status find_unknown_command(std::span<const std::string> words, const CommandText& program) {
  if (words.empty() || words[0].starts_with('-')) return {};
  if (find_command(program, words.first(1)) != nullptr) return {};
  if (words[0] == "capture") {
    return misuse(
        "cli",
        "capture is a command of the Python package: python -m dlpipe capture MODULE:FUNCTION -o m.dlm");
  }
  if (words[0] == "convert-augment") {
    return misuse("cli", "convert-augment is a command of the Python package: python -m dlpipe ",
                  "convert-augment FILE");
  }
  if (const auto kind = run::kind_of(words[0]))  // `dlpipe IMAGES`
    return misuse("cli", "there is no command '", words[0], "'; it is ", kind->name, ": ", kind->advice);
  return misuse("cli", "there is no command '", words[0], "'", suggestion(words[0], part_names(program)));
}

namespace {

/// The option with this name or alias, also hidden ones; null if there is none.
const OptionText* find_option(const CommandText& command, std::string_view name) {
  const auto found = std::ranges::find_if(command.options, [&](const OptionText& option) {
    return name.starts_with('-') && (option.name == name || std::ranges::count(option.aliases, name) > 0);
  });
  return found == command.options.end() ? nullptr : &*found;
}

const CommandText* find_part(const CommandText& command, const std::string& word) {
  const std::string name = command.name.empty() ? word : concat(command.name, " ", word);
  const auto found = std::ranges::find(command.parts, name, &CommandText::name);
  return found == command.parts.end() ? nullptr : &*found;
}

/// A word split at "=": "--out=a" has a name and a value.
struct Given {
  std::string name;
  std::optional<std::string> value;
};

Given split_at_equals(const std::string& word) {
  const size_t equals = word.starts_with("--") ? word.find('=') : std::string::npos;
  if (equals == std::string::npos) return {word, std::nullopt};
  return {word.substr(0, equals), word.substr(equals + 1)};
}

template <class... Parts>
Status refused(const CommandText& command, const Parts&... parts) {
  return misuse(command.name.empty() ? "cli" : command.name, parts..., "; see 'dlpipe ", command.name,
                command.name.empty() ? "" : " ", "--help'");
}

Status check_switch(const CommandText& command, const Given& given) {
  if (!given.value || *given.value == "true" || *given.value == "false") return {};
  return refused(command, given.name, " is '", *given.value,
                 "', but a switch has no value other than true or false");
}

/// `next` is the word after the option `name`.
Status check_value(const CommandText& command, const std::string& name, const std::string& kind,
                   const std::string& next) {
  if (next == "--") return refused(command, name, " needs a value (", kind, ")");
  if (find_option(command, split_at_equals(next).name) == nullptr) return {};
  return refused(
      command, name, " needs a value (", kind, "), but '", next, "' is an option",
      name.starts_with("--") ? concat("; to use it as a value, write ", name, "=", next) : std::string());
}

/// Separates every value into its own word. `--out=`, as from an unset variable, becomes --out and an empty word; CLI11 would use
/// the next word as the value. kMisuse if an option of the command is in the place of a value (`--out --tf32`; `--out=--tf32` is
/// accepted), or if a switch has a value other than true or false.
Result<std::vector<std::string>> with_values_apart(const std::vector<std::string>& words,
                                                   const CommandText& program) {
  std::vector<std::string> apart;
  const CommandText* command = &program;
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--") {
      apart.insert(apart.end(), words.begin() + static_cast<ptrdiff_t>(i), words.end());
      break;
    }
    const Given given = split_at_equals(words[i]);
    const OptionText* const option = find_option(*command, given.name);
    const std::string kind = option == nullptr ? "" : option->is_word() ? option->name : option->value;
    if (kind.empty()) {  // a switch, a positional word, or unknown
      if (option != nullptr) DLPIPE_RETURN_IF_ERROR(check_switch(*command, given));
      if (const CommandText* const part = find_part(*command, words[i])) command = part;
      apart.push_back(words[i]);
      continue;
    }
    apart.push_back(given.name);
    if (given.value) {
      apart.push_back(*given.value);
    } else if (i + 1 < words.size()) {  // else CLI11 reports what is missing
      DLPIPE_RETURN_IF_ERROR(check_value(*command, given.name, kind, words[i + 1]));
      apart.push_back(words[++i]);
    }
  }
  return apart;
}

/// The command, or part of a command, that was parsed.
const CommandText& innermost(const CLI::App& app, const CommandText& program) {
  std::vector<std::string> words;
  for (const CLI::App* current = &app; !current->get_subcommands().empty();) {
    current = current->get_subcommands().front();
    words.push_back(current->get_name());
  }
  const CommandText* const found = find_command(program, words);
  return found != nullptr ? *found : program;
}

/// The positional words of a command, for an error about an extra one: ": it takes DATA, and the model or run by --ckpt".
std::string words_text(const CommandText& command) {
  std::string words;
  for (const OptionText& option : command.options) {
    if (option.is_word() && !option.is_hidden) words += concat(words.empty() ? "" : " and ", option.name);
  }
  if (words.empty()) return "";
  const OptionText* const model = command.find("--ckpt");
  const bool is_by_name = model != nullptr && !model->is_word();
  return concat(": the command takes ", words, is_by_name ? ", and the model or run by --ckpt" : "");
}

std::string did_you_mean(const OptionText& option, const char* value = "") {
  return concat("; did you mean '", option.has_twin() ? option.aliases.front() : option.name,
                *value == '\0' ? "" : " ", value, "'?");
}

/// "; did you mean '--threads'?" for the option of `command` that `typed` ("--num-workers", "-j") means or almost spells; "" if
/// there is none.
std::string option_suggestion(std::string_view typed, const CommandText& command) {
  const std::string word = run::plain_name(typed);
  if (const OptionText* same = command.find(word); same != nullptr)
    return did_you_mean(*same);  // --weight_decay
  for (const run::ForeignName& one : run::foreign_names()) {
    const OptionText* const option = command.find(one.option);
    if (option != nullptr && word == one.typed) return did_you_mean(*option, one.value);
  }
  std::vector<std::string> names;
  for (const OptionText& option : command.options) {
    if (!option.is_word()) names.push_back(option.name);
    names.insert(names.end(), option.aliases.begin(), option.aliases.end());
  }
  const std::string near = nearest_name(concat("--", word), names);
  if (near.empty()) return "";
  const OptionText* const option = command.find(near);  // null: the hidden half of a switch
  return option != nullptr ? did_you_mean(*option) : concat("; did you mean '", near, "'?");
}

/// CLI11's message, reworded.
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
      return concat(text.substr(option, equals - option), " '", text.substr(equals + 3), "' is not a ",
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

Status misuse_from_parse_error(const CLI::ParseError& error, const CLI::App& app,
                               const CommandText& program) {
  const CommandText& command = innermost(app, program);
  const std::string where = concat("dlpipe", command.name.empty() ? "" : " ", command.name);
  const std::string area = concat("[", command.name.empty() ? "cli" : command.name, "] ");
  const std::string help = concat("; see '", where, " --help'");
  std::vector<std::string> extras = app.remaining(true);
  const bool is_operand = !extras.empty() && extras.front() == "--";  // after it nothing is an option
  std::erase(extras, "--");
  // CLI11 reports a mistyped part (`bench trian`) as a missing one; this message names what was typed.
  const bool is_mistyped_part = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr && !extras.empty();
  if (is_mistyped_part || dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    std::string extra = extras.empty() ? std::string("?") : extras.front();
    if (extra.starts_with('-') && !is_operand) {
      extra = split(extra, '=').front();
      if (find_option(command, extra) != nullptr)
        return {ErrorCode::kMisuse,
                concat(area, "write ", extra, " after the command: ", where, " ... ", extra)};
      return {ErrorCode::kMisuse,
              concat(area, "there is no option '", extra, "'", option_suggestion(extra, command), help)};
    }
    const std::vector<std::string> parts = part_names(command);
    const std::string near = parts.empty() ? words_text(command) : suggestion(extra, parts);
    const bool is_like_option = is_operand && extra.starts_with('-');
    return {ErrorCode::kMisuse, concat(area, "unexpected argument '", extra, "'", near,
                                       is_like_option ? "; after -- nothing is an option" : "", help)};
  }
  return {ErrorCode::kMisuse, concat(area, plain_words(error, command), help)};
}

/// Notes which one counts if both a switch and its opposite are given.
void say_which_switch_counts(const CLI::Option& option, const std::string& area) {
  const std::vector<std::string>& given = option.results();
  const bool is_contradicted = std::ranges::adjacent_find(given, std::not_equal_to<>()) != given.end() &&
                               option.get_lnames().size() == 2;
  if (!is_contradicted) return;
  const std::string& yes = option.get_lnames()[0];
  const std::string& no = option.get_lnames()[1];
  print_note(concat("[", area, "] --", yes, " and --", no, " are both given; the last one, --",
                    given.back() == "true" ? yes : no, ", counts"));
}

/// Notes options that are given twice: the last one counts. `area` is the command's name, also for a part of it.
void say_what_is_given_again(const CLI::App& command, const std::string& area) {
  for (const CLI::Option* option : command.get_options()) {
    const bool is_last_taken = option->get_multi_option_policy() == CLI::MultiOptionPolicy::TakeLast;
    if (!is_last_taken || option->count() < 2) continue;
    if (option->get_expected_max() == 0) {
      say_which_switch_counts(*option, area);
      continue;
    }
    const std::string& last = option->results().back();
    print_note(concat("[", area, "] ", option->get_name(), " is given ", option->count(),
                      " times; the last one, ", shell_text(last), ", counts"));
  }
  for (const CLI::App* part : command.get_subcommands()) say_what_is_given_again(*part, area);
}

}  // namespace

Status parse(Program& program, const std::vector<std::string>& words, std::string& version) {
  try {
    DLPIPE_ASSIGN_OR_RETURN(const auto apart, with_values_apart(words, program.text));
    program.app.parse(std::vector<std::string>(apart.rbegin(), apart.rend()));  // in reverse order, for CLI11
  } catch (const CLI::CallForVersion& line) {
    version = line.what();
  } catch (const CLI::ParseError& error) {
    return misuse_from_parse_error(error, program.app, program.text);
  } catch (...) {
    return status_from_current_exception("cli");
  }
  return {};
}

void note_repeated_options(const Program& program) {
  const CLI::App* const command = program.command();
  say_what_is_given_again(*command, command->get_name());
}

}  // namespace dlpipe::cli
