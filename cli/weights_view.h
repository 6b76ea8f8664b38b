// What `dlpipe info PATH` says of a safetensors file, a checkpoint or a run. Throws Error.
#pragma once

#include <string>

#include "dlpipe/io/formats/json.h"
#include "dlpipe/run/use/weights_source.h"

namespace dlpipe::cli {

std::string weights_text(const run::WeightsSource& source);
formats::Json weights_json(const run::WeightsSource& source);

}  // namespace dlpipe::cli
