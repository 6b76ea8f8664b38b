// The table of a training run's options. It defines the flags of `dlpipe train`, the keys of the TOML file, the config.toml of
// a run directory, and `--help`. TrainConfig itself is in dlpipe/config.h.
//
// Adding an option: one member of TrainConfig and one row in config.cpp. Values only; no threads.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "dlpipe/config.h"
#include "dlpipe/error.h"

namespace dlpipe::run {

/// One option: its name (`--name` and the TOML key), its member and its meaning.
struct ConfigOption {
  using Member = std::variant<std::string TrainConfig::*, int64_t TrainConfig::*, double TrainConfig::*,
                              bool TrainConfig::*, std::vector<std::string> TrainConfig::*,
                              std::optional<int64_t> TrainConfig::*, std::optional<double> TrainConfig::*,
                              std::optional<bool> TrainConfig::*>;
  const char* name;
  const char* group;  // heading in --help and in config.toml
  const char* help;
  Member member;
  /// May be changed on --resume, because it does not change results.
  bool free_on_resume = false;
  /// Minimum and maximum of a number.
  double low = -1e300;
  double high = 1e300;
  /// The allowed words; empty: any text.
  std::vector<std::string> choices = {};
};

/// Options that are paths: a run stores them as absolute paths, so that it can be resumed from any working directory.
struct PathOption {
  const char* name;
  std::string TrainConfig::*path;
};
inline constexpr PathOption kPathOptions[] = {
    {"data", &TrainConfig::data}, {"val", &TrainConfig::val}, {"init", &TrainConfig::init}};

/// Options of losses that evaluation uses, too. Checkpoints record them; label smoothing and class weights are for training.
struct LossOption {
  const char* name;  // in checkpoints
  double LossArguments::*value;
  std::optional<double> TrainConfig::*given;
};
inline constexpr LossOption kLossOptions[] = {
    {"pos_weight", &LossArguments::pos_weight, &TrainConfig::pos_weight},
    {"focal_gamma", &LossArguments::focal_gamma, &TrainConfig::focal_gamma},
    {"focal_alpha", &LossArguments::focal_alpha, &TrainConfig::focal_alpha},
    {"gamma_neg", &LossArguments::gamma_neg, &TrainConfig::gamma_neg},
    {"gamma_pos", &LossArguments::gamma_pos, &TrainConfig::gamma_pos},
    {"margin", &LossArguments::margin, &TrainConfig::margin},
    {"loss_beta", &LossArguments::beta, &TrainConfig::loss_beta}};

/// Whether a path may expand to several: shards-{000..127}.tar.
inline bool is_pattern(std::string_view path) {
  return path.find_first_of("{*?[") != std::string_view::npos;
}

std::span<const ConfigOption> config_options();
/// "--threads, --keep, ...": those that may always change on resume.
std::string free_option_names();
const ConfigOption* find_config_option(std::string_view name);

/// "TEXT", "INT", "FLOAT", "" (a switch), "TEXT,...".
std::string_view option_type(const ConfigOption& option);
bool is_switch(const ConfigOption& option);
/// False for a std::optional without a value.
bool has_value(const ConfigOption& option, const TrainConfig& config);
/// The value as written on a command line; lists separated by commas; "" if there is none.
std::string option_text(const ConfigOption& option, const TrainConfig& config);
/// Sets a value from such a text. kMisuse names the option, the given text and what is expected.
Status set_option(const ConfigOption& option, std::string_view text, TrainConfig& config);
/// Checks every value as set_option() would, for members that a program set.
Status check_options(const TrainConfig& config);

/// Prefix of the last line of a run's config.toml: run/record/run_directory.h.
inline constexpr std::string_view kConfigChecksum = "# checksum ";

/// read_config for a text in memory.
Status parse_config(std::string_view toml, std::string_view name_for_messages, TrainConfig& config);

/// "5min", "30s", "2h", "500" or "500steps", "1epoch", "0.5epoch", "never".
struct Interval {
  enum class Unit : uint8_t { kNever, kSteps, kEpochs, kSeconds };
  Unit unit = Unit::kNever;
  double amount = 0;
};
Result<Interval> parse_interval(std::string_view text, std::string_view option);

}  // namespace dlpipe::run
