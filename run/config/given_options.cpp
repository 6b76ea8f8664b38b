#include "dlpipe/run/config/given_options.h"

#include <algorithm>
#include <filesystem>

#include "dlpipe/base/printable.h"
#include "dlpipe/base/refuse.h"
#include "dlpipe/base/shell_word.h"
#include "dlpipe/base/text.h"
#include "dlpipe/run/config/config_choices.h"
#include "dlpipe/run/config/other_names.h"

namespace dlpipe::run {

static const ConfigOption& option_called(const std::string& name, const std::string& text = "") {
  if (const ConfigOption* option = find_config_option(name)) return *option;
  refuse("train", "there is no option --", name, config_suggestion(name, text == "false", "--"));
}

/// A path of a config file is relative to the current folder, as one on the command line is and as most programs that train have
/// it; who expects the file's own folder finds nothing, and is told which folder was looked in.
static void check_paths(const std::string& file, const std::vector<std::string>& given,
                        const TrainConfig& config) {
  for (const PathOption& option : kPathOptions) {
    const std::string& path = config.*option.path;
    std::error_code error;
    if (path.empty() || is_pattern(path) || std::ranges::find(given, option.name) != given.end() ||
        std::filesystem::exists(path, error))
      continue;
    const std::filesystem::path here = std::filesystem::current_path(error);
    std::string text =
        concat("[config] ", option.name, " = ", in_quotes(path), " in ", printable(file), " names nothing");
    if (std::filesystem::path(path).is_relative()) {
      text += concat(" below ", printable(here.string()),
                     ": paths in a config file are relative to the folder that dlpipe is called in");
      const std::filesystem::path beside = std::filesystem::path(file).parent_path() / path;
      if (std::filesystem::exists(beside, error)) {
        throw Error(Status(ErrorCode::kNotFound, concat(text, "; beside the file there is one: give --",
                                                        option.name, " ", shell_word(beside.string()))));
      }
    }
    throw Error(Status(ErrorCode::kNotFound, concat(text, "; give --", option.name, " PATH")));
  }
}

TrainConfig read_options(const std::string& file, const GivenOptions& given,
                         const std::function<void(const std::string&)>& note) {
  TrainConfig config;
  config.augment = kAutoAugment;
  if (!file.empty()) throw_if_error(read_config(file, config));
  const TrainConfig of_file = config;
  std::vector<std::string> names;
  for (const auto& [name, text] : given) {
    throw_if_error(set_option(option_called(name, text), text, config));
    names.push_back(name);
  }
  if (file.empty()) return config;
  check_paths(file, names, config);
  for (const std::string& line : drop_idle_options(config, names)) note(concat(file, ": ", line));
  if (of_file.lr && of_file.optimizer != config.optimizer && std::ranges::find(names, "lr") == names.end()) {
    refuse("train", "lr = ", option_text(option_called("lr"), of_file), " in ", printable(file),
           " is a rate for ", of_file.optimizer, ", and rates of ", config.optimizer,
           " are of another size; give --lr with --optimizer ", config.optimizer,
           " (`dlpipe --help optimizers` shows the default of each)");
  }
  return config;
}

}  // namespace dlpipe::run
