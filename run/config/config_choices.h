// Options that belong to a choice: each optimizer, schedule and loss has a record that lists the options it
// takes, with their defaults. Here they meet a TrainConfig. Pure functions.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "dlpipe/run/config/config.h"
#include "dlpipe/run/config/registries.h"

namespace dlpipe::run {

/// Gives every option of the chosen optimizer, schedule and loss that has no value its record's default.
/// kMisuse names options that have a value and do nothing with these choices, and an unknown choice.
Status resolve_choices(TrainConfig& config, const Registries& registries = {});

/// Takes out the values that do nothing with the choices, but for options in `keep`; answers a line for each
/// choice. For what comes from a file, where another choice may have been made since.
std::vector<std::string> drop_idle_options(TrainConfig& config, std::span<const std::string> keep = {},
                                           const Registries& registries = {});

/// "0.9 (sgd, muon)": an option's defaults by the records that take it; "" for an option of no choice.
std::string choice_defaults(const ConfigOption& option);

/// "--lr 0.001  --beta1 0.9": what a record takes, with its defaults.
std::string option_list(std::span<const engine::OptionDefault> options);

}  // namespace dlpipe::run
