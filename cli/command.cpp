#include "cli/command.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <limits>
#include <stdexcept>
#include <system_error>
#include <type_traits>

#include "base/text.h"
#include "cli/help.h"
#include "dlpipe/error.h"
#include "run/config/other_names.h"

namespace dlpipe::cli {

Flags::Flags(CLI::App* app, CommandText* text, OutputOptions* output)
    : app_(app),
      text_(text),
      output_(output),
      checks_(std::make_shared<std::vector<std::function<void()>>>()) {
  app->option_defaults()->always_capture_default();
  app->set_help_flag();
  app->callback([checks = checks_] {
    for (const auto& check : *checks) check();
  });
  // --help is handled before anything is parsed (help.h).
  OptionText& help = add_text("--help", "Show this help; --help-all: every option; --help LIST: a list", "");
  help.group = kEveryCommand;
  for (const HelpTopic& topic : help_topics()) help.choices.emplace_back(topic.name);
  add_flag("--quiet", output->is_quiet, "No progress and no notes; warnings and errors stay")
      .group(kEveryCommand);
  add_option("--color", output->color, "Colours in messages; auto: on a terminal without NO_COLOR")
      .choices(names_of(kColorNames))
      .type_name("WHEN")
      .group(kEveryCommand);
}

const OptionText* CommandText::find(std::string_view option_name) const {
  const auto matches = [&](std::string_view name) {
    return name == option_name || (name.starts_with("--") && name.substr(2) == option_name);
  };
  for (const OptionText& option : options) {
    if (option.is_hidden) continue;
    if (matches(option.name) || std::any_of(option.aliases.begin(), option.aliases.end(), matches))
      return &option;
  }
  return nullptr;
}

Flag& Flag::required() {
  text_->is_required = true;
  if (!text_->has_twin()) option_->required();  // else with_twin() checks it
  return *this;
}

Flag& Flag::optional() {
  text_->is_optional = true;
  return *this;
}

Flag& Flag::range(int low, int high) {
  option_->check([low, high](const std::string& given) {
    int64_t value = 0;
    if (parse_int(given, &value) && value >= low && value <= high) return std::string();
    return concat("'", given, "' is not a whole number from ", low, " to ", human_count(high));
  });
  return *this;
}

Flag& Flag::range(double low, double high) {
  option_->check([low, high](const std::string& given) {
    double value = 0;
    if (parse_double(given, &value) && value >= low && value <= high) return std::string();
    return concat("'", given, "' is not a number from ", low, " to ", high);
  });
  return *this;
}

Flag& Flag::choices(const std::vector<std::string>& words) {
  text_->choices = words;
  option_->check([words](const std::string& given) {
    if (std::find(words.begin(), words.end(), given) != words.end()) return std::string();
    return concat("'", given, "' is not one of its values", suggestion(given, words));
  });
  return *this;
}

Flag& Flag::not_empty() {
  option_->check([text = text_](const std::string& given) {
    if (!given.empty()) return std::string();
    return concat("'' is empty; give ", text->value, text->is_required ? "" : ", or leave the option out");
  });
  return *this;
}

Flag& Flag::writes_file(const std::vector<std::string>& allowed) {
  not_empty();
  text_->help += "; -: stdout";
  option_->transform([](const std::string& given) { return given == "-" ? std::string(kStdout) : given; });
  option_->check([allowed](const std::string& given) {
    std::error_code ignored;
    if (std::filesystem::is_directory(given, ignored)) {
      return concat("'", given, "' is a folder; name the file to write in it, such as ",
                    (std::filesystem::path(given) / ("NAME" + allowed[0])).string());
    }
    const std::string ending = std::filesystem::path(given).extension().string();
    if (ending.empty() || std::find(allowed.begin(), allowed.end(), ending) != allowed.end())
      return std::string();
    std::string all;
    for (const std::string& one : allowed) all += concat(all.empty() ? "" : " or ", one);
    return concat("'", given, "' has an ending that doesn't match the file's format; use ", all);
  });
  return *this;
}

Flag& Flag::type_name(const std::string& name) {
  text_->value = name;
  return *this;
}

Flag& Flag::group(const std::string& name) {
  text_->group = name;
  return *this;
}

Flag& Flag::completes(const std::vector<std::string>& words) {
  text_->choices = words;
  return *this;
}

Flag& Flag::excludes(const Flag& other) {
  option_->excludes(other.option_);
  return *this;
}

Flag& Flag::needs(const Flag& other) {
  option_->needs(other.option_);
  return *this;
}

static std::string all_names(const OptionText& text) {
  std::string names = text.name;
  if (text.is_word()) return names;
  for (const std::string& alias : text.aliases) names += "," + alias;
  return names;
}

/// Other names of an option ("--threads": "--jobs", "--workers") or of a word ("DATA": "--data").
static std::vector<std::string> aliases_of(std::string_view name) {
  for (const run::OtherNames& one : run::other_names()) {
    if (name == one.name) return {one.aliases.begin(), one.aliases.end()};
  }
  return {};
}

OptionText& Flags::add_text(const std::string& name, const std::string& help, const std::string& value) {
  OptionText& text = text_->options.emplace_back();
  text.name = name;
  text.aliases = aliases_of(name);
  text.help = help;
  if (!text.is_word()) text.value = value;
  return text;
}

// A word may be given as a named option instead: `eval DATA`, `eval --data DATA`. Not both.
Flag Flags::with_twin(CLI::Option* word, CLI::Option* named, OptionText& text) {
  named->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  const OptionText* const shown = &text;
  const CommandText* const command = text_;
  checks_->push_back([word, named, shown, command] {
    if (word->count() > 0 && named->count() > 0) {
      refuse(command->name, "unexpected argument '", word->results().front(), "': ", shown->name,
             " is already given by ", shown->aliases.front());
    }
    if (shown->is_required && word->count() + named->count() == 0) {
      refuse(command->name, shown->name, " is missing (", shown->help, "); see 'dlpipe ", command->name,
             " --help'");
    }
  });
  return {word, &text};
}

static std::string alias_names(const OptionText& text) {
  std::string names;
  for (const std::string& alias : text.aliases) names += (names.empty() ? "" : ",") + alias;
  return names;
}

/// Decimal, like the options of `train`: CLI11 reads 010 as 8, and accepts 0x10.
template <class T>
static bool parse_whole(std::string_view text, T* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

template <class T>
static bool overflows(std::string_view text) {
  T value = 0;
  return std::from_chars(text.data(), text.data() + text.size(), value).ec == std::errc::result_out_of_range;
}

template <class T>
static std::string out_of_range(const std::string& given) {
  using Signed = std::conditional_t<std::is_same_v<T, uint64_t>, int64_t, T>;
  const bool is_out = given.starts_with('-') ? overflows<Signed>(given) : overflows<T>(given);
  if (!is_out) return {};
  return concat("'", given, "' is not a whole number from ", std::numeric_limits<T>::min(), " to ",
                std::numeric_limits<T>::max());
}

template <class T>
static CLI::Option* add_value(CLI::App* app, const std::string& names, T& value, const std::string& help) {
  if constexpr (!std::is_integral_v<T>) {
    return app->add_option(names, value, help);
  } else {
    const auto set = [&value](const CLI::results_t& given) { return parse_whole(given.back(), &value); };
    CLI::Option* const option =
        app->add_option(names, set, help, true, [&value] { return std::to_string(value); });
    option->check(out_of_range<T>);
    if constexpr (std::is_same_v<T, uint64_t>) {
      option->check([](const std::string& text) {
        return text.starts_with('-') ? concat(text, " is below 0") : std::string();
      });
    }
    return option;
  }
}

/// If an option may have several values at once, CLI11 reads "[a,b]", which is one path, as two values. So an option has one value
/// each time that it is given. A word expects more values than any command line has.
static void take_words_as_they_are(CLI::Option* list, bool is_word) {
  constexpr int kMoreThanFit = 1 << 28;
  list->allow_extra_args(false);
  if (is_word)
    list->expected(kMoreThanFit, kMoreThanFit)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

template <class T>
Flag Flags::add_option(const std::string& name, T& value, const std::string& help) {
  constexpr bool kIsList = std::is_same_v<T, std::vector<std::string>>;
  constexpr bool kIsText = kIsList || std::is_same_v<T, std::string>;
  OptionText& text = add_text(name, help, kIsText ? "TEXT" : std::is_same_v<T, double> ? "X" : "N");
  text.is_list = kIsList;
  CLI::Option* const option = add_value(app_, all_names(text), value, help);
  if (kIsList)
    take_words_as_they_are(option, text.is_word());
  else if (!text.is_word())
    option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  if (!kIsList) text.default_text = option->get_default_str();
  if constexpr (std::is_same_v<T, std::string>) {
    if (text.has_twin()) return with_twin(option, app_->add_option(alias_names(text), value, help), text);
  }
  return {option, &text};
}
template Flag Flags::add_option(const std::string&, std::string&, const std::string&);
template Flag Flags::add_option(const std::string&, int&, const std::string&);
template Flag Flags::add_option(const std::string&, int64_t&, const std::string&);
template Flag Flags::add_option(const std::string&, uint64_t&, const std::string&);
template Flag Flags::add_option(const std::string&, double&, const std::string&);
template Flag Flags::add_option(const std::string&, std::vector<std::string>&, const std::string&);

Flag Flags::add_flag(const std::string& name, bool& value, const std::string& help) {
  OptionText& text = add_text(name, help, "");
  return {app_->add_flag(all_names(text), value, help), &text};
}

Flag Flags::add_setter(const std::string& name, std::function<void(const std::string&)> set,
                       const std::string& help, const std::string& default_text, bool is_list) {
  OptionText& text = add_text(name, help, is_list ? "LIST" : "TEXT");
  text.is_list = is_list;
  text.default_text = default_text;
  const auto add = [&](const std::string& names) {
    if (is_list) {
      const auto join = [set](const std::vector<std::string>& words) {
        std::string joined;
        for (const std::string& word : words) joined += (joined.empty() ? "" : ",") + word;
        set(joined);
      };
      return app_->add_option_function<std::vector<std::string>>(names, join, help)->allow_extra_args(false);
    }
    CLI::Option* const option = app_->add_option_function<std::string>(names, set, help);
    // A second word is a mistake.
    if (names.starts_with("-")) option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    return option;
  };
  CLI::Option* const option = add(all_names(text));
  return text.has_twin() ? with_twin(option, add(alias_names(text)), text) : Flag(option, &text);
}

Flag Flags::add_switch(const std::string& yes, const std::string& no, std::function<void(bool)> set,
                       const std::string& help, bool shows_yes) {
  add_text(shows_yes ? no : yes, "", "").is_hidden = true;
  const std::string names = concat(yes, ",!", no);
  const auto take = [set = std::move(set)](int64_t value) { set(value > 0); };
  CLI::Option* const option = app_->add_flag_function(names, take, help);
  option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  return {option, &add_text(shows_yes ? yes : no, help, "")};
}

void Flags::add_version(const std::string& line) {
  const OptionText& text = add_text("--version", "Show the version and what it was built with", "");
  app_->set_version_flag(text.name, line, text.help);
}

Flags Flags::add_part(const std::string& name, const std::string& help) {
  CommandText& part = text_->parts.emplace_back();
  part.name = concat(text_->name, " ", name);
  part.help = help;
  return {app_->add_subcommand(name, help), &part, output_};
}

void Flags::require_part() {
  app_->require_subcommand(1);
}

bool Flags::parsed() const {
  return app_->parsed();
}

void Flags::show_first(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (text_->find(name) == nullptr) throw std::logic_error(concat("no option ", name, " of ", text_->name));
  }
  text_->first = names;
}

void Flags::footer(const std::string& text) {
  text_->footer = text;
}

}  // namespace dlpipe::cli
