#include "dlpipe/run/config/config.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "dlpipe/base/refuse.h"
#include "dlpipe/base/shortest_decimal.h"
#include "dlpipe/base/text.h"

namespace dlpipe::run {

namespace {

Status bad_value(const ConfigOption& option, std::string_view given, std::string_view expected) {
  return misuse("config", "--", option.name, " is '", given, "'; expected ", expected);
}

template <class T>
Status set_number(const ConfigOption& option, std::string_view text, T& member) {
  T value{};
  bool is_number = false;
  if constexpr (std::is_same_v<T, double>) {
    is_number = parse_double(text, &value) && std::isfinite(value);
  } else {
    is_number = parse_int(text, &value);
  }
  if (!is_number) return bad_value(option, text, std::is_same_v<T, double> ? "a number" : "a whole number");
  if (static_cast<double>(value) < option.low) {
    return bad_value(option, text, concat("at least ", shortest_decimal(option.low)));
  }
  if (static_cast<double>(value) > option.high) {
    return bad_value(option, text, concat("at most ", shortest_decimal(option.high)));
  }
  member = value;
  return {};
}

Status set_text(const ConfigOption& option, std::string_view text, std::string& member) {
  if (!option.choices.empty() &&
      std::find(option.choices.begin(), option.choices.end(), text) == option.choices.end()) {
    return misuse("config", "--", option.name, " can't be '", text, "'", suggestion(text, option.choices));
  }
  member = std::string(text);
  return {};
}

Status set_switch(const ConfigOption& option, std::string_view text, bool& member) {
  if (text != "true" && text != "false") return bad_value(option, text, "true or false");
  member = text == "true";
  return {};
}

}  // namespace

std::string free_option_names() {
  std::string names;
  for (const ConfigOption& option : config_options()) {
    if (option.free_on_resume) names += concat(names.empty() ? "--" : ", --", option.name);
  }
  return names;
}

const ConfigOption* find_config_option(std::string_view name) {
  for (const ConfigOption& option : config_options()) {
    if (option.name == name) return &option;
  }
  return nullptr;
}

std::string_view option_type(const ConfigOption& option) {
  static constexpr std::array<std::string_view, 8> kTypes = {"TEXT",     "INT", "FLOAT", "",
                                                             "TEXT,...", "INT", "FLOAT", ""};
  return kTypes[option.member.index()];
}

bool is_switch(const ConfigOption& option) {
  return option_type(option).empty();
}

bool has_value(const ConfigOption& option, const TrainConfig& config) {
  return std::visit(
      [&](auto member) {
        if constexpr (requires { (config.*member).has_value(); }) return (config.*member).has_value();
        return true;
      },
      option.member);
}

static std::string value_text(const std::string& value) {
  return value;
}
static std::string value_text(bool value) {
  return value ? "true" : "false";
}
static std::string value_text(double value) {
  return shortest_decimal(value);
}
static std::string value_text(int64_t value) {
  return std::to_string(value);
}
static std::string value_text(const std::vector<std::string>& value) {
  std::string text;
  for (const std::string& item : value) text += (text.empty() ? "" : ",") + item;
  return text;
}
template <class T>
static std::string value_text(const std::optional<T>& value) {
  return value ? value_text(*value) : "";
}

std::string option_text(const ConfigOption& option, const TrainConfig& config) {
  return std::visit([&](auto member) { return value_text(config.*member); }, option.member);
}

static Status set_value(const ConfigOption& option, std::string_view text, std::string& member) {
  return set_text(option, text, member);
}
static Status set_value(const ConfigOption& option, std::string_view text, bool& member) {
  return set_switch(option, text, member);
}
static Status set_value(const ConfigOption& option, std::string_view text, double& member) {
  return set_number(option, text, member);
}
static Status set_value(const ConfigOption& option, std::string_view text, int64_t& member) {
  return set_number(option, text, member);
}
static Status set_value(const ConfigOption& /*option*/, std::string_view text,
                        std::vector<std::string>& member) {
  member.clear();
  for (const std::string& item : split(text, ',')) {
    if (!trim(item).empty()) member.emplace_back(trim(item));
  }
  return {};
}
template <class T>
static Status set_value(const ConfigOption& option, std::string_view text, std::optional<T>& member) {
  T value{};
  DLPIPE_RETURN_IF_ERROR(set_value(option, text, value));
  member = value;
  return {};
}

Status set_option(const ConfigOption& option, std::string_view text, TrainConfig& config) {
  return std::visit([&](auto member) { return set_value(option, text, config.*member); }, option.member);
}

Status check_options(const TrainConfig& config) {
  TrainConfig checked;
  for (const ConfigOption& option : config_options()) {
    if (has_value(option, config))
      DLPIPE_RETURN_IF_ERROR(set_option(option, option_text(option, config), checked));
    // A run's config.toml couldn't hold it.
    const bool is_kept =
        std::visit([&](auto member) { return config.*member == checked.*member; }, option.member);
    if (!is_kept) {
      return misuse("config", "--", option.name, " is '", option_text(option, config),
                    "' in words of which one is empty, has a comma, or begins or ends with a blank");
    }
  }
  return {};
}

Result<Interval> parse_interval(std::string_view text, std::string_view option) {
  struct UnitName {
    std::string_view name;
    Interval::Unit unit;
    double factor;
  };
  using Unit = Interval::Unit;
  static constexpr std::array<UnitName, 13> kUnits = {{{"", Unit::kSteps, 1},
                                                       {"step", Unit::kSteps, 1},
                                                       {"steps", Unit::kSteps, 1},
                                                       {"epoch", Unit::kEpochs, 1},
                                                       {"epochs", Unit::kEpochs, 1},
                                                       {"s", Unit::kSeconds, 1},
                                                       {"sec", Unit::kSeconds, 1},
                                                       {"seconds", Unit::kSeconds, 1},
                                                       {"m", Unit::kSeconds, 60},
                                                       {"min", Unit::kSeconds, 60},
                                                       {"minutes", Unit::kSeconds, 60},
                                                       {"h", Unit::kSeconds, 3600},
                                                       {"hours", Unit::kSeconds, 3600}}};
  text = trim(text);
  if (text == "never") return Interval{};
  const size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
  double amount = 0;
  if (parse_double(text.substr(0, digits), &amount) && amount > 0) {
    for (const UnitName& unit : kUnits) {
      if (unit.name != trim(text.substr(digits))) continue;
      if (unit.unit == Unit::kSteps && amount != std::floor(amount)) break;
      return Interval{unit.unit, amount * unit.factor};
    }
  }
  return misuse("config", "--", option, " is '", text,
                "'; expected 500steps, 1epoch, 30s, 5min, 2h or never");
}

}  // namespace dlpipe::run
