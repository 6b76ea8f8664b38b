// Merges the options of a training run: a file's, overridden by those given, and the defaults of the chosen optimizer, schedule
// and loss, whose records list the options that they use.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dlpipe/config.h"
#include "dlpipe/models.h"
#include "run/config/config.h"

namespace dlpipe::run {

/// Sets every option of the chosen optimizer, schedule and loss without a value to its record's default. kMisuse names options
/// that have a value but no effect with these choices, and an unknown choice.
Status resolve_choices(TrainConfig& config, const Registries& registries = {});

/// Removes values that have no effect with these choices, except for options in `keep`; returns a line for each choice. Used for
/// values from a file, because another choice may have been made after it was written.
std::vector<std::string> drop_idle_options(TrainConfig& config, std::span<const std::string> keep = {},
                                           const Registries& registries = {});

/// "0.9 (sgd, muon)": an option's defaults by the records that use it; "" for an option that belongs to no choice.
std::string choice_defaults(const ConfigOption& option);

/// "--lr 0.001  --beta1 0.9": the options that a record uses, with its defaults.
std::string option_list(std::span<const engine::OptionDefault> options);

/// TrainConfig::augment if it was not given: the training session chooses a chain and records it.
inline constexpr const char* kAutoAugment = "auto";

using GivenOptions = std::vector<std::pair<std::string, std::string>>;  // name and text

/// What the model returns that a run with these options starts from, if files contain it (--init, or a file as --model).
using OutputOfFile = std::function<engine::ModelOutput(const TrainConfig&)>;

/// The options from a file and from the command line. Throws Error. Given options override the file's ("": no file), which
/// override the defaults. All paths are relative to the current directory, also those in the file: kNotFound for a missing one
/// names that directory. Options in the file for another choice (of optimizer, schedule, loss) than the given one are dropped
/// and reported to `note`. kMisuse if the given optimizer would train with the rate that the file has for another one.
/// The defaults of --batch, --optimizer and --lr depend on the model's outputs; `output_of_file` is run::output_of_file.
TrainConfig read_options(const std::string& file, const GivenOptions& given,
                         const std::function<void(const std::string&)>& note,
                         const OutputOfFile& output_of_file);

}  // namespace dlpipe::run
