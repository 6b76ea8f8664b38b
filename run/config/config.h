// Everything that decides a training run, as one plain struct, and the one table of its options: from it are
// made the flags of `dlpipe train`, the keys of the TOML file, the config.toml that a run directory keeps,
// and `--help`.
//
// Adding an option: one member of TrainConfig and one row in config_table.cpp. An option that belongs to an
// optimizer, a schedule or a loss is a std::optional: without a value it is what the chosen one's record says
// (config_choices.h). Values only; no threads.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "dlpipe/base/error.h"

namespace dlpipe::run {

struct TrainConfig {
  // Data.
  std::string data;
  std::string val;  // empty: the val of a folder of splits, else no validation
  std::string augment;
  std::string val_augment;  // empty: resize and center_crop to the model's input size
  double mixup = 0;
  double cutmix = 0;
  int64_t batch = 128;
  int64_t limit = -1;
  int64_t max_bad = -1;
  int64_t max_pixels = 178'956'970;
  int64_t slots = 3;
  std::string cache = "none";
  std::string cache_size;  // "50GiB"; empty: what leaves 1 GiB of the disk free
  // Model.
  std::string model;
  std::string init;
  std::vector<std::string> freeze;
  bool reset_head = false;
  std::vector<std::string> checkpoint_activations;
  std::string dtype = "f32";
  bool tf32 = false;
  std::string device = "cpu";
  std::string graph = "auto";
  bool compile = false;
  std::string decode = "auto";
  // Optimisation.
  double epochs = 10;
  int64_t max_steps = -1;
  int64_t accumulate = 1;
  int64_t grains = 0;  // 0: 1 in one process, else 8, or one for each of more; config.toml holds the number
  bool sync_bn = false;
  std::string compress = "none";
  std::string exact = "on";
  std::string optimizer = "sgd";
  std::optional<double> lr;
  std::optional<double> momentum;
  std::optional<bool> nesterov;
  std::optional<double> weight_decay;
  std::optional<bool> decoupled;
  bool decay_vectors = true;
  std::vector<std::string> lr_scale;  // "GLOB=FACTOR"
  std::vector<std::string> wd_scale;
  std::vector<std::string> muon;
  std::optional<double> muon_momentum;
  std::optional<int64_t> muon_iterations;
  std::optional<bool> muon_normalize;
  std::optional<double> beta1;
  std::optional<double> beta2;
  std::optional<double> epsilon;
  std::string schedule = "cosine";
  std::optional<double> warmup;
  std::optional<double> warmup_start;
  std::vector<std::string> milestones;
  std::optional<double> gamma;
  std::optional<double> final_ratio;
  std::optional<double> peak_at;
  double clip = 0;
  double ema = 0;
  std::string loss = "cross_entropy";
  std::optional<double> label_smoothing;
  // Judging and stopping.
  std::string tta = "none";
  std::vector<std::string> metrics = {"top1", "top5"};
  std::string val_every = "1epoch";
  int64_t early_stop = 0;
  std::string on_nonfinite = "stop";
  int64_t overfit_batch = 0;
  // The run.
  std::string out;
  std::string checkpoint_every = "5min";
  int64_t keep = 2;
  std::string receipt = "params";
  int64_t threads = 0;
  std::string kernels = "auto";
  std::string isa = "auto";
  std::string memory;  // "8GiB"; empty: no limit
  int64_t seed = 0;
  double bucket_mb = 25;
  bool shard_optimizer = false;
  int64_t tensor_parallel = 1;
  int64_t pipeline_parallel = 1;
  double peer_timeout = 60;

  /// No option, but kept with them in a run's config.toml: paths as they were typed ("data-typed"), and which
  /// datasets they held ("data-id", "val-id").
  std::map<std::string, std::string> record;

  friend bool operator==(const TrainConfig&, const TrainConfig&) = default;
};

/// One option: its name (`--name` and the TOML key), where it lies, what it means.
struct ConfigOption {
  using Member = std::variant<std::string TrainConfig::*, int64_t TrainConfig::*, double TrainConfig::*,
                              bool TrainConfig::*, std::vector<std::string> TrainConfig::*,
                              std::optional<int64_t> TrainConfig::*, std::optional<double> TrainConfig::*,
                              std::optional<bool> TrainConfig::*>;
  const char* name;
  const char* group;  // heading in --help and in config.toml
  const char* help;
  Member member;
  /// May be changed on --resume: it changes nothing of what is computed.
  bool free_on_resume = false;
  /// Least and greatest value of a number.
  double low = -1e300;
  double high = 1e300;
  /// The words that a text may be; empty: any.
  std::vector<std::string> choices = {};
};

/// Options that are paths: a run keeps them absolute, so that it goes on from any working directory.
struct PathOption {
  const char* name;
  std::string TrainConfig::*path;
};
inline constexpr PathOption kPathOptions[] = {
    {"data", &TrainConfig::data}, {"val", &TrainConfig::val}, {"init", &TrainConfig::init}};

/// Whether a path may stand for several: shards-{000..127}.tar.
inline bool is_pattern(std::string_view path) {
  return path.find_first_of("{*?[") != std::string_view::npos;
}

std::span<const ConfigOption> config_options();
/// "--threads, --keep, ...": those that may change on resume whatever else there is.
std::string free_option_names();
const ConfigOption* find_config_option(std::string_view name);

/// "TEXT", "INT", "FLOAT", "" (a switch), "TEXT,...".
std::string_view option_type(const ConfigOption& option);
bool is_switch(const ConfigOption& option);
/// False for a std::optional without a value.
bool has_value(const ConfigOption& option, const TrainConfig& config);
/// The value as written on a command line; lists with commas between; "" where there is none.
std::string option_text(const ConfigOption& option, const TrainConfig& config);
/// Sets from such a text. kMisuse names the option, what was given and what is expected.
Status set_option(const ConfigOption& option, std::string_view text, TrainConfig& config);
/// Every value as set_option() would take it, for members that a program set.
Status check_options(const TrainConfig& config);

/// Begins the last line of the config.toml of a run: run/record/saved_config.h.
inline constexpr std::string_view kConfigChecksum = "# checksum ";

/// A TOML file over `config`: keys are option names, an unknown one suggests the nearest. A run's config.toml
/// that lacks its last line is refused; edited ones are taken.
Status read_config(const std::string& path, TrainConfig& config);
Status parse_config(std::string_view toml, std::string_view name_for_messages, TrainConfig& config);
/// Complete: every option with its value and its help, but for the last line with the checksum.
std::string write_config(const TrainConfig& config);

/// "5min", "30s", "2h", "500" or "500steps", "1epoch", "0.5epoch", "never".
struct Interval {
  enum class Unit : uint8_t { kNever, kSteps, kEpochs, kSeconds };
  Unit unit = Unit::kNever;
  double amount = 0;
};
Result<Interval> parse_interval(std::string_view text, std::string_view option);

}  // namespace dlpipe::run
