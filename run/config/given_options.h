// The options of a training from a file and from what was given beside it. Throws Error.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "dlpipe/run/config/config.h"

namespace dlpipe::run {

/// TrainConfig::augment where nobody said anything of it: the training session chooses, and records what it chose.
inline constexpr const char* kAutoAugment = "auto";

using GivenOptions = std::vector<std::pair<std::string, std::string>>;  // name and text

/// Paths are relative to the current folder, those of the file too: kNotFound for one of the file's that isn't there says which
/// folder that was. The defaults, over them the file's options ("": no file), over these what is given. What the file says for another
/// choice (of optimizer, schedule, loss) than that which is given is dropped, and told to `note`. kMisuse where the optimizer that is
/// given would train with the rate that the file has for another.
TrainConfig read_options(const std::string& file, const GivenOptions& given,
                         const std::function<void(const std::string&)>& note);

}  // namespace dlpipe::run
