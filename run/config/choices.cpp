#include "run/config/choices.h"

#include <algorithm>
#include <filesystem>

#include "base/messages.h"
#include "base/text.h"
#include "dlpipe/error.h"
#include "dlpipe/optim.h"
#include "run/config/other_names.h"

namespace dlpipe::run {

namespace {

struct Taker {
  std::string name;
  std::span<const engine::OptionDefault> options;

  const char* default_of(std::string_view option) const {
    for (const engine::OptionDefault& one : options) {
      if (one.name == option) return one.value;
    }
    return nullptr;
  }
};

/// An option whose value is the name of a record, and all such records.
struct Choice {
  const char* option;
  const char* list;  // of --help
  std::string TrainConfig::*chosen;
  std::vector<Taker> takers;

  const Taker* find(std::string_view name) const {
    const auto taker = std::ranges::find(takers, name, &Taker::name);
    return taker != takers.end() ? &*taker : nullptr;
  }
  bool is_taken_by_any(std::string_view option) const {
    return std::ranges::any_of(takers,
                               [&](const Taker& taker) { return taker.default_of(option) != nullptr; });
  }
};

std::vector<Choice> all_choices(const Registries& registries) {
  std::vector<Choice> choices = {{"optimizer", "optimizers", &TrainConfig::optimizer, {}},
                                 {"schedule", "schedules", &TrainConfig::schedule, {}},
                                 {"loss", "losses", &TrainConfig::loss, {}}};
  for (const auto* record : registries.optimizers.records())
    choices[0].takers.push_back({record->name, record->options});
  for (const auto* record : engine::ScheduleRegistry::builtin().records())
    choices[1].takers.push_back({record->name, record->options});
  for (const auto* record : registries.losses.records())
    choices[2].takers.push_back({record->name, record->options});
  return choices;
}

/// Whether the option has a value that may have an effect. A std::optional says whether it was given. All other options that
/// belong to a choice are lists, which count as given if they are not empty.
bool is_given(const ConfigOption& option, const TrainConfig& config) {
  return has_value(option, config) && !option_text(option, config).empty();
}

/// The options of `choice` that are given but not used by the chosen record.
std::vector<const ConfigOption*> idle_options(const Choice& choice, const Taker& chosen,
                                              const TrainConfig& config) {
  std::vector<const ConfigOption*> idle;
  for (const ConfigOption& option : config_options()) {
    if (choice.is_taken_by_any(option.name) && chosen.default_of(option.name) == nullptr &&
        is_given(option, config))
      idle.push_back(&option);
  }
  return idle;
}

std::string join(const std::vector<std::string>& words, std::string_view last) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i)
    text += concat(i == 0 ? "" : i + 1 == words.size() ? last : std::string_view(", "), words[i]);
  return text;
}

std::string flags(const std::vector<const ConfigOption*>& options) {
  std::vector<std::string> names;
  names.reserve(options.size());
  for (const ConfigOption* option : options) names.push_back(concat("--", option->name));
  return join(names, " and ");
}

/// "--beta1 and --beta2 have no effect with --optimizer sgd".
std::string idle_text(const Choice& choice, const Taker& chosen,
                      const std::vector<const ConfigOption*>& idle) {
  return concat(flags(idle), idle.size() == 1 ? " has" : " have", " no effect with --", choice.option, " ",
                chosen.name);
}

Status refuse_idle(const Choice& choice, const Taker& chosen, const std::vector<const ConfigOption*>& idle) {
  std::vector<std::string> takers;
  for (const Taker& taker : choice.takers) {
    if (taker.default_of(idle.front()->name) != nullptr) takers.push_back(taker.name);
  }
  std::vector<std::string> taken;
  for (const engine::OptionDefault& one : chosen.options) taken.push_back(concat("--", one.name));
  return misuse("config", idle_text(choice, chosen, idle), ", which uses ",
                taken.empty() ? "no options" : join(taken, " and "), "; leave ",
                idle.size() == 1 ? "it" : "them", " out, or choose ", join(takers, " or "), " (--help ",
                choice.list, ")");
}

/// Options without effect although the chosen record uses them.
Status check_values(const TrainConfig& c) {
  if (c.schedule == "step" && c.milestones.empty())
    return misuse(
        "config",
        "--schedule step has no --milestones, so the rate would never change; give some, such as 30,60");
  if (c.optimizer == "muon" && c.muon.empty()) {
    return misuse("config",
                  "--optimizer muon has no --muon, so every parameter would use sgd; name matrices, such as "
                  "\"*.conv?.weight\"");
  }
  const auto schedule = engine::ScheduleRegistry::builtin().find(c.schedule);
  const bool has_warmup =
      schedule.ok() && Taker{c.schedule, (*schedule)->options}.default_of("warmup") != nullptr;
  if (has_warmup && c.warmup == 0.0 && c.warmup_start.value_or(0) > 0)
    return misuse("config",
                  "--warmup-start has no effect without --warmup; give --warmup a number of epochs");
  if (c.weight_decay == 0.0) {
    const char* idle = c.decoupled.value_or(false) ? "--decoupled"
                       : !c.decay_vectors          ? "--no-decay-vectors"
                       : !c.wd_scale.empty()       ? "--wd-scale"
                                                   : nullptr;
    if (idle != nullptr)
      return misuse("config", idle, " has no effect without --weight-decay; give one above 0");
  }
  return {};
}

}  // namespace

Status resolve_choices(TrainConfig& config, const Registries& registries) {
  DLPIPE_RETURN_IF_ERROR(registries.optimizers.find(config.optimizer).status());
  DLPIPE_RETURN_IF_ERROR(engine::ScheduleRegistry::builtin().find(config.schedule).status());
  // The data decide what "auto" means; then this function is called again.
  if (config.loss != "auto") DLPIPE_RETURN_IF_ERROR(registries.losses.find(config.loss).status());
  for (const Choice& choice : all_choices(registries)) {
    const Taker* const found = choice.find(config.*choice.chosen);
    if (found == nullptr) continue;
    const Taker& chosen = *found;
    const auto idle = idle_options(choice, chosen, config);
    if (!idle.empty()) return refuse_idle(choice, chosen, idle);
    for (const engine::OptionDefault& one : chosen.options) {
      const ConfigOption* option = find_config_option(one.name);
      if (option != nullptr && !has_value(*option, config))
        DLPIPE_RETURN_IF_ERROR(set_option(*option, one.value, config));
    }
  }
  return check_values(config);
}

std::vector<std::string> drop_idle_options(TrainConfig& config, std::span<const std::string> keep,
                                           const Registries& registries) {
  const TrainConfig defaults;
  std::vector<std::string> lines;
  for (const Choice& choice : all_choices(registries)) {
    const Taker* chosen = choice.find(config.*choice.chosen);
    if (chosen == nullptr) continue;  // resolve_choices reports it
    auto idle = idle_options(choice, *chosen, config);
    std::erase_if(idle, [&](const ConfigOption* option) {
      return std::ranges::find(keep, std::string_view(option->name)) != keep.end();
    });
    if (idle.empty()) continue;
    for (const ConfigOption* option : idle)
      std::visit([&](auto member) { config.*member = defaults.*member; }, option->member);
    lines.push_back(concat(idle_text(choice, *chosen, idle),
                           idle.size() == 1 ? "; it is ignored" : "; they are ignored"));
  }
  return lines;
}

std::string choice_defaults(const ConfigOption& option) {
  std::vector<std::pair<std::string, std::vector<std::string>>> values;  // with the records that have them
  for (const Choice& choice : all_choices({})) {
    for (const Taker& taker : choice.takers) {
      const char* value = taker.default_of(option.name);
      if (value == nullptr) continue;
      const std::string shown = *value == '\0' ? "none" : value;
      auto at = std::ranges::find(values, shown, &decltype(values)::value_type::first);
      if (at == values.end()) at = values.insert(at, {shown, {}});
      at->second.push_back(taker.name);
    }
  }
  std::vector<std::string> parts;
  parts.reserve(values.size());
  for (const auto& [value, takers] : values) parts.push_back(concat(value, " (", join(takers, ", "), ")"));
  return join(parts, ", ");
}

std::string option_list(std::span<const engine::OptionDefault> options) {
  std::string text;
  for (const engine::OptionDefault& one : options) {
    text += concat(text.empty() ? "" : "  ", "--", one.name, " ", *one.value == '\0' ? "(none)" : one.value);
  }
  return text;
}

static const ConfigOption& option_called(const std::string& name, const std::string& text = "") {
  if (const ConfigOption* option = find_config_option(name)) return *option;
  refuse("train", "there is no option --", name, config_suggestion(name, text == "false", "--"));
}

/// A path in a config file is relative to the current directory, like one on the command line and as in most training programs.
/// For users who expect the file's own directory, the error names the directory that was used.
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
        concat("[config] ", option.name, " = ", in_quotes(path), " in ", printable(file), " does not exist");
    if (std::filesystem::path(path).is_relative()) {
      text += concat(" below ", printable(here.string()),
                     ": paths in a config file are relative to the current directory");
      const std::filesystem::path beside = std::filesystem::path(file).parent_path() / path;
      if (std::filesystem::exists(beside, error)) {
        throw Error(Status(ErrorCode::kNotFound, concat(text, "; it exists next to the config file: give --",
                                                        option.name, " ", shell_word(beside.string()))));
      }
    }
    throw Error(Status(ErrorCode::kNotFound, concat(text, "; give --", option.name, " PATH")));
  }
}

/// Whether the model predicts for every pixel or cell. Most of these are background, and a run with few, large batches learns
/// only the background. Therefore the default batch is smaller and the default optimizer is another one.
static bool is_dense(const TrainConfig& config, const OutputOfFile& output_of_file) {
  if (config.task != "auto") return config.task == "segment" || config.task == "detect";
  const auto model = engine::ModelRegistry::builtin().find(config.model);
  return (model.ok() ? (*model)->output : output_of_file(config)) != engine::ModelOutput::kImage;
}

TrainConfig read_options(const std::string& file, const GivenOptions& given,
                         const std::function<void(const std::string&)>& note,
                         const OutputOfFile& output_of_file) {
  constexpr int64_t kNoBatch = 0;  // not a valid --batch
  constexpr const char* kNoOptimizer =
      "auto";  // the defaults of optimizer and batch depend on the task and the model
  TrainConfig config;
  config.augment = kAutoAugment;
  config.batch = kNoBatch;
  config.optimizer = kNoOptimizer;
  if (!file.empty()) throw_if_error(read_config(file, config));
  TrainConfig of_file = config;
  std::vector<std::string> names;
  for (const auto& [name, text] : given) {
    throw_if_error(set_option(option_called(name, text), text, config));
    names.push_back(name);
  }
  const auto is_open = [&](const TrainConfig& one) {
    return one.batch == kNoBatch || one.optimizer == kNoOptimizer;
  };
  const bool has_open_default =
      is_open(config) || is_open(of_file) || (config.optimizer == "adamw" && !config.lr);
  const bool has_dense_defaults = has_open_default && is_dense(config, output_of_file);  // may open the file
  for (TrainConfig* one : {&config, &of_file}) {
    if (one->batch == kNoBatch) one->batch = has_dense_defaults ? 8 : TrainConfig().batch;
    if (one->optimizer == kNoOptimizer)
      one->optimizer = has_dense_defaults ? "adamw" : TrainConfig().optimizer;
  }
  if (has_dense_defaults && config.optimizer == "adamw" && !config.lr) config.lr = 2e-3;
  if (file.empty()) return config;
  check_paths(file, names, config);
  for (const std::string& line : drop_idle_options(config, names)) note(concat(file, ": ", line));
  if (of_file.lr && of_file.optimizer != config.optimizer && std::ranges::find(names, "lr") == names.end()) {
    refuse("train", "lr = ", option_text(option_called("lr"), of_file), " in ", printable(file),
           " is a rate for ", of_file.optimizer, ", but rates of ", config.optimizer,
           " have another scale; give --lr with --optimizer ", config.optimizer,
           " (`dlpipe --help optimizers` shows the default of each)");
  }
  return config;
}

}  // namespace dlpipe::run
