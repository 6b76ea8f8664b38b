#include "dlpipe/run/config/config_choices.h"

#include <algorithm>

#include "dlpipe/base/refuse.h"
#include "dlpipe/base/text.h"
#include "dlpipe/engine/optim/optimizer.h"

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

/// Whether someone gave a value that may act. What has a default of its own can't tell, and counts as given
/// where it isn't empty: only lists are among a choice's options.
bool is_given(const ConfigOption& option, const TrainConfig& config) {
  return has_value(option, config) && !option_text(option, config).empty();
}

/// The options of `choice` that are given, and that the chosen record doesn't take.
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

/// "--beta1 and --beta2 do nothing with --optimizer sgd".
std::string idle_text(const Choice& choice, const Taker& chosen,
                      const std::vector<const ConfigOption*>& idle) {
  return concat(flags(idle), idle.size() == 1 ? " does" : " do", " nothing with --", choice.option, " ",
                chosen.name);
}

Status refuse_idle(const Choice& choice, const Taker& chosen, const std::vector<const ConfigOption*>& idle) {
  std::vector<std::string> takers;
  for (const Taker& taker : choice.takers) {
    if (taker.default_of(idle.front()->name) != nullptr) takers.push_back(taker.name);
  }
  std::vector<std::string> taken;
  for (const engine::OptionDefault& one : chosen.options) taken.push_back(concat("--", one.name));
  return misuse("config", idle_text(choice, chosen, idle), ", which takes ",
                taken.empty() ? "no options" : join(taken, " and "), "; leave ",
                idle.size() == 1 ? "it" : "them", " out, or choose ", join(takers, " or "), " (--help ",
                choice.list, ")");
}

/// What does nothing although the chosen record takes it.
Status check_values(const TrainConfig& c) {
  if (c.schedule == "step" && c.milestones.empty())
    return misuse("config",
                  "--schedule step has no --milestones, so the rate would never step; give some, as 30,60");
  if (c.optimizer == "muon" && c.muon.empty()) {
    return misuse(
        "config",
        "--optimizer muon has no --muon, so every parameter would take sgd's step; name matrices, as "
        "\"*.conv?.weight\"");
  }
  const auto schedule = engine::ScheduleRegistry::builtin().find(c.schedule);
  const bool has_warmup =
      schedule.ok() && Taker{c.schedule, (*schedule)->options}.default_of("warmup") != nullptr;
  if (has_warmup && c.warmup == 0.0 && c.warmup_start.value_or(0) > 0)
    return misuse("config", "--warmup-start does nothing without --warmup; give its epochs");
  if (c.weight_decay == 0.0) {
    const char* idle = c.decoupled.value_or(false) ? "--decoupled"
                       : !c.decay_vectors          ? "--no-decay-vectors"
                       : !c.wd_scale.empty()       ? "--wd-scale"
                                                   : nullptr;
    if (idle != nullptr)
      return misuse("config", idle, " does nothing without --weight-decay; give one above 0");
  }
  return {};
}

}  // namespace

Status resolve_choices(TrainConfig& config, const Registries& registries) {
  DLPIPE_RETURN_IF_ERROR(registries.optimizers.find(config.optimizer).status());
  DLPIPE_RETURN_IF_ERROR(engine::ScheduleRegistry::builtin().find(config.schedule).status());
  DLPIPE_RETURN_IF_ERROR(registries.losses.find(config.loss).status());
  for (const Choice& choice : all_choices(registries)) {
    const Taker& chosen = *choice.find(config.*choice.chosen);
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
    if (chosen == nullptr) continue;  // resolve_choices says so
    auto idle = idle_options(choice, *chosen, config);
    std::erase_if(idle, [&](const ConfigOption* option) {
      return std::ranges::find(keep, std::string_view(option->name)) != keep.end();
    });
    if (idle.empty()) continue;
    for (const ConfigOption* option : idle)
      std::visit([&](auto member) { config.*member = defaults.*member; }, option->member);
    lines.push_back(concat(idle_text(choice, *chosen, idle), "; left out"));
  }
  return lines;
}

std::string choice_defaults(const ConfigOption& option) {
  std::vector<std::pair<std::string, std::vector<std::string>>> values;  // and who has them
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

}  // namespace dlpipe::run
