#include "dlpipe/cli/config_flags.h"

#include <cctype>

#include "dlpipe/base/text.h"
#include "dlpipe/cli/help_topics.h"
#include "dlpipe/run/config/config.h"
#include "dlpipe/run/config/config_choices.h"

namespace dlpipe::cli {

namespace {

using run::ConfigOption;
using run::TrainConfig;

std::string value_name(const ConfigOption& option) {
  const std::string_view type = run::option_type(option);
  return type == "INT" ? "N" : type == "FLOAT" ? "X" : type == "TEXT" ? "TEXT" : "LIST";
}

/// "--model" completes to the names that `--help models` lists.
std::vector<std::string> known_values(const ConfigOption& option) {
  if (!option.choices.empty()) return option.choices;
  for (const HelpTopic& topic : help_topics()) {
    if (std::string_view(topic.option) == option.name) return topic.words();
  }
  return {};
}

/// "Decay of biases" -> "No decay of biases".
std::string without(std::string help) {
  help[0] = static_cast<char>(std::tolower(help[0]));
  return "No " + help;
}

// Both directions can be given, because either may stand in a config file; the one that isn't the default is
// shown.
void add_switch(Flags& flags, const std::string& name, const std::string& help, bool is_on,
                const std::string& group, const std::shared_ptr<GivenOptions>& given) {
  const auto set = [given, name](bool value) { given->emplace_back(name, value ? "true" : "false"); };
  const std::string yes = concat("--", name), no = concat("--no-", name);
  flags.add_switch(yes, no, set, is_on ? without(help) : help, !is_on).group(group);
}

}  // namespace

void add_config_flags(Flags& flags, const std::shared_ptr<GivenOptions>& given) {
  const TrainConfig defaults;
  for (const ConfigOption& option : run::config_options()) {
    const std::string name = option.name;
    std::string group = option.group;
    group[0] = static_cast<char>(std::toupper(group[0]));
    const std::string by_choice = run::choice_defaults(option);
    const std::string help =
        by_choice.empty() ? std::string(option.help) : concat(option.help, "; default ", by_choice);
    if (run::is_switch(option)) {
      add_switch(flags, name, help, run::option_text(option, defaults) == "true", group, given);
      continue;
    }
    const auto set = [given, name](const std::string& text) { given->emplace_back(name, text); };
    // The dataset is what the command is about: a word by its place, or --data.
    const std::string flag = name == "data" ? "DATA" : concat("--", name);
    flags.add_setter(flag, set, help, run::option_text(option, defaults), value_name(option) == "LIST")
        .type_name(value_name(option))
        .completes(known_values(option))
        .group(group);
  }
}

}  // namespace dlpipe::cli
