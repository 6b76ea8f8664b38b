// `dlpipe train --help ops` and the like: tables made from the very records that the program builds from.
#pragma once

#include <string>
#include <string_view>

#include "dlpipe/base/error.h"

namespace dlpipe::cli {

/// ops, models, optimizers, schedules, losses, metrics; kMisuse for another word.
Result<std::string> train_help_topic(std::string_view topic);

}  // namespace dlpipe::cli
