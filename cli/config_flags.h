// The flags of `dlpipe train`, from the option table of run/config/config.h.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dlpipe/cli/flags.h"

namespace dlpipe::cli {

/// Options given on the command line, (name, text), in order.
using GivenOptions = std::vector<std::pair<std::string, std::string>>;

/// One flag an option, with its default and group; what is given is appended to `given` when it is parsed.
void add_config_flags(Flags& flags, const std::shared_ptr<GivenOptions>& given);

}  // namespace dlpipe::cli
