#include "dlpipe/run/config/given_options.h"

#include <algorithm>

#include "dlpipe/base/refuse.h"
#include "dlpipe/base/text.h"
#include "dlpipe/run/config/config_choices.h"

namespace dlpipe::run {

static const ConfigOption& option_called(const std::string& name) {
  if (const ConfigOption* option = find_config_option(name)) return *option;
  std::vector<std::string> names;
  for (const ConfigOption& option : config_options()) names.emplace_back(option.name);
  refuse("train", "there is no option --", name, suggestion(name, names));
}

TrainConfig read_options(const std::string& file, const GivenOptions& given,
                         const std::function<void(const std::string&)>& note) {
  TrainConfig config;
  if (!file.empty()) throw_if_error(read_config(file, config));
  const TrainConfig of_file = config;
  std::vector<std::string> names;
  for (const auto& [name, text] : given) {
    throw_if_error(set_option(option_called(name), text, config));
    names.push_back(name);
  }
  if (file.empty()) return config;
  for (const std::string& line : drop_idle_options(config, names)) note(concat(file, ": ", line));
  if (of_file.lr && of_file.optimizer != config.optimizer && std::ranges::find(names, "lr") == names.end()) {
    note(concat("lr = ", option_text(option_called("lr"), config), " is what ", file, " says for ",
                of_file.optimizer, "; --help optimizers shows what ", config.optimizer, " begins with"));
  }
  return config;
}

}  // namespace dlpipe::run
