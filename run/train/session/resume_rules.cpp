#include "run/train/session/resume_rules.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <variant>

#include "base/messages.h"
#include "base/text.h"
#include "dlpipe/dataset.h"
#include "dlpipe/error.h"
#include "run/config/other_names.h"
#include "run/record/run_directory.h"
#include "run/train/session/linked_data.h"

namespace dlpipe::run {

namespace fs = std::filesystem;

namespace {

// These options may change in addition to the free ones: their new values are checked once the data is open.
constexpr std::array<std::string_view, 2> kDataOptions = {"data", "val"};
constexpr std::array<std::string_view, 2> kLengthOptions = {"epochs", "max-steps"};

bool may_change(const ConfigOption& option) {
  const std::string_view name = option.name;
  return option.free_on_resume || std::ranges::find(kDataOptions, name) != kDataOptions.end() ||
         std::ranges::find(kLengthOptions, name) != kLengthOptions.end();
}

std::string absolute(const std::string& path) {
  return fs::absolute(path).lexically_normal().string();
}

std::string typed_key(const PathOption& option) {
  return concat(option.name, "-typed");
}

bool exists(const std::string& path) {
  std::error_code error;
  return fs::exists(path, error);
}

/// Empty paths are checked elsewhere: without --val a split of the data is used.
Status check_is_there(std::string_view option, const std::string& path, std::string_view what) {
  if (path.empty() || is_pattern(path) || exists(path)) return {};
  return {ErrorCode::kNotFound, concat("[train] the run's ", what, " ", path,
                                       " is missing; give its current place with --", option)};
}

/// "runs/a/" as "runs/a".
std::string without_slash(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

/// Whether the run has this value of the option. kMisuse if the value is invalid.
Result<bool> has_already(const ConfigOption& option, const std::string& text, TrainConfig config) {
  TrainConfig changed = config;
  DLPIPE_RETURN_IF_ERROR(set_option(option, text, changed));
  for (TrainConfig* const one : {&config, &changed}) {
    for (std::string* const path : {&one->init, &one->out})
      if (!path->empty()) *path = without_slash(absolute(*path));
  }
  return std::visit([&](auto member) { return changed.*member == config.*member; }, option.member);
}

}  // namespace

void record_paths(TrainConfig& config) {
  config.record.clear();
  for (const PathOption& option : kPathOptions) {
    std::string& path = config.*option.path;
    if (path.empty()) continue;
    if (!fs::path(path).is_absolute()) config.record[typed_key(option)] = path;
    path = absolute(path);
  }
}

Status change_for_resume(const std::string& directory,
                         const std::vector<std::pair<std::string, std::string>>& changes,
                         TrainConfig& config) {
  for (const PathOption& option : kPathOptions) {
    std::string& path = config.*option.path;
    if (path.empty()) continue;
    if (config.record.contains(images_key(option))) {  // the run may have been moved since
      path = links_of(directory, option);
      continue;
    }
    const auto typed = config.record.find(typed_key(option));
    if (!exists(path) && typed != config.record.end() && exists(typed->second)) path = typed->second;
    path = absolute(path);
  }
  for (const auto& [name, text] : changes) {
    const ConfigOption* option = find_config_option(name);
    if (option == nullptr)
      return misuse("train", "there is no option --", name, config_suggestion(name, text == "false", "--"));
    if (!may_change(*option)) {
      DLPIPE_ASSIGN_OR_RETURN(const bool is_same, has_already(*option, text, config));
      if (is_same) continue;
      return misuse(
          "train", "--", name,
          " can't be changed on --resume, because the run would not be the same; start another: `dlpipe "
          "train --config ",
          shell_word(concat(without_slash(directory), "/config.toml")), " ",
          shell_text(concat("--", name, "=", text)), name == "out" ? "`" : " --out NEW`");
    }
    DLPIPE_RETURN_IF_ERROR(set_option(*option, text, config));
    for (const PathOption& path : kPathOptions) {
      if (name != path.name) continue;
      config.record.erase(typed_key(path));
      config.record.erase(images_key(path));
      if (text.empty()) continue;  // like an option that is not given
      config.record[typed_key(path)] = text;
      config.*path.path = absolute(text);
    }
  }
  for (const PathOption& option : kPathOptions)
    DLPIPE_RETURN_IF_ERROR(check_images_are_there(config, option));
  DLPIPE_RETURN_IF_ERROR(check_is_there("data", config.data, "dataset"));
  return check_is_there("val", config.val, "validation set");
}

Status check_dataset(const PathOption& option, const std::string& path, const std::string& directory,
                     const TrainConfig& config) {
  const auto known = config.record.find(concat(option.name, "-id"));
  if (known == config.record.end()) return {};
  if (directory.empty()) {
    return {ErrorCode::kNotFound,
            concat("[train] ", path, " has no split ", option.name,
                   ", but the run began with one; give its current place with --", option.name)};
  }
  DLPIPE_ASSIGN_OR_RETURN(const auto dataset,
                          data::Dataset::open(directory, {}, data::Dataset::IdCheck::kLater));
  if (known->second == dataset->id()) return {};
  return misuse("train", path, " holds dataset ", dataset->id(), ", but the run began with ", known->second,
                "; give the dataset that it began with, or start another run with --config ",
                shell_word(concat(without_slash(config.out), "/config.toml")), " --out NEW");
}

Status check_same_past(const engine::ScheduleArguments& former, const engine::ScheduleArguments& now,
                       int64_t step, const TrainConfig& config) {
  const std::string run = without_slash(config.out);
  if (now.total_steps < step) {
    return misuse("train", run, " has already done ", counted(step, "step"),
                  ", but --epochs and --max-steps would end it at ", human_count(now.total_steps),
                  "; give more");
  }
  for (int64_t s = 0; s < step; ++s) {
    DLPIPE_ASSIGN_OR_RETURN(const double was, engine::learning_rate(former, s));
    DLPIPE_ASSIGN_OR_RETURN(const double is, engine::learning_rate(now, s));
    if (was == is) continue;
    const ConfigOption& epochs = *find_config_option("epochs");
    const std::string steps = config.max_steps < 0 ? "" : concat(" --max-steps ", config.max_steps);
    std::string data = concat(" --data ", shell_word(config.data));
    if (!config.val.empty()) data += concat(" --val ", shell_word(config.val));
    const std::string_view head = config.reset_head ? " --no-reset-head" : "";  // the run's own is trained
    return misuse("train", "the schedule ", now.name, " spans the whole run: with another length, step ",
                  s + 1, " would have had another rate (", shortest_decimal(is), ", it had ",
                  shortest_decimal(was), "). Start another run from its weights: `dlpipe train --config ",
                  shell_word(concat(run, "/config.toml")), " --init ", shell_word(run), data, head,
                  " --epochs ", option_text(epochs, config), steps, " --out ",
                  shell_word(free_run_name(concat(run, "-longer"))), "`");
  }
  return {};
}

}  // namespace dlpipe::run
