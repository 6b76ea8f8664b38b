#include "dlpipe/cli/config_flags.h"

#include <CLI/CLI.hpp>

#include "dlpipe/base/text.h"
#include "dlpipe/run/config.h"

namespace dlpipe::cli {

void add_config_flags(Flags& flags, const std::shared_ptr<GivenOptions>& given) {
  CLI::App& app = flags.app();
  const run::TrainConfig defaults;
  for (const run::ConfigOption& option : run::config_options()) {
    const std::string name = option.name;
    const std::string flag = "--" + name;
    std::string group = option.group;
    group[0] = static_cast<char>(std::toupper(group[0]));
    std::string help = option.help;
    for (size_t i = 0; i < option.choices.size(); ++i) help += (i == 0 ? ": " : ", ") + option.choices[i];
    CLI::Option* added = nullptr;
    if (const auto* member = std::get_if<bool run::TrainConfig::*>(&option.member)) {
      // Both directions can be given, because either may stand in a config file; the one that isn't the
      // default is shown.
      const bool is_on = defaults.**member;
      const std::string shown = is_on ? "--no-" + name : flag;
      const std::string hidden = is_on ? flag : "--no-" + name;
      const auto set_shown = [given, name, is_on](int64_t) {
        given->emplace_back(name, is_on ? "false" : "true");
      };
      const auto set_hidden = [given, name, is_on](int64_t) {
        given->emplace_back(name, is_on ? "true" : "false");
      };
      app.add_flag_function(hidden, set_hidden)->group("");
      added = app.add_flag_function(
          shown, set_shown, concat(is_on ? "Switch off: " : "", help, "; default ", is_on ? "on" : "off"));
    } else {
      const bool is_list =
          std::holds_alternative<std::vector<std::string> run::TrainConfig::*>(option.member);
      if (is_list) {
        const auto set = [given, name](const std::vector<std::string>& words) {
          std::string text;
          for (const std::string& word : words) text += (text.empty() ? "" : ",") + word;
          given->emplace_back(name, text);
        };
        added = app.add_option_function<std::vector<std::string>>(flag, set, help);
      } else {
        const auto set = [given, name](const std::string& text) { given->emplace_back(name, text); };
        added = app.add_option_function<std::string>(flag, set, help);
        added->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
      }
      added->type_name(std::string(run::option_type(option)));
      added->default_str(run::option_text(option, defaults));
    }
    added->group(group);
  }
}

}  // namespace dlpipe::cli
