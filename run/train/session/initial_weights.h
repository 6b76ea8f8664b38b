// `--init`: weights from elsewhere into a model, by name.
#pragma once

#include <string>
#include <vector>

#include "dlpipe/engine/layers/module.h"
#include "dlpipe/engine/models/model.h"
#include "dlpipe/run/use/weights_source.h"

namespace dlpipe::run {

/// Copies `source` into `model`, one of `record`, which was built for `data`. The classes that `source` says, if any, must be
/// those of `data`, unless `reset_head`, which keeps the model's own classifier. Answers lines for a person. Throws Error: kMisuse
/// lists names that are missing, unexpected, or shaped differently.
std::vector<std::string> load_initial_weights(const WeightsSource& source, const ModelState& data,
                                              const engine::ModelRecord& record, bool reset_head,
                                              engine::Module& model, const Registries& registries);

}  // namespace dlpipe::run
