// `--init`: weights from elsewhere into a model, by name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/engine/layers/module.h"

namespace dlpipe::run {

/// Loads `path`, a safetensors file with PyTorch's names, or a checkpoint or run of dlpipe's (the averaged
/// weights where there are some; its classes must be `classes`). A `head` ("fc.") that isn't empty keeps the
/// model's own parameters under that prefix, and then classes may differ. Answers lines for a person. Throws
/// Error: kMisuse lists names that are missing, unexpected, or shaped differently.
std::vector<std::string> load_weights(const std::string& path, const std::vector<std::string>& classes,
                                      std::string_view head, engine::Module& model);

}  // namespace dlpipe::run
