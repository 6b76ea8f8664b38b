// Flags that say which trained model a command takes: the same for eval and predict.
#pragma once

#include "dlpipe/cli/flags.h"
#include "dlpipe/run/use/loaded_model.h"

namespace dlpipe::cli {

/// --ckpt (or --init, as train calls weights), --model, --classes, --val-augment, --tta, --dtype. `model` lives
/// until the command has run.
void add_model_flags(Flags& flags, run::ModelOptions& model);

}  // namespace dlpipe::cli
