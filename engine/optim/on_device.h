// Which optimizers have a step on devices: what their records say of it.
#pragma once

#include <string>
#include <string_view>

#include "dlpipe/base/device/device.h"
#include "dlpipe/base/error.h"
#include "dlpipe/engine/optim/optimizer.h"

namespace dlpipe::engine {

/// "adam, adamw, sgd": those that do.
std::string names_on_device(const OptimizerRegistry& optimizers);

/// kUnsupported, naming those of `optimizers` to take instead, where `device` is not the host and `optimizer` has no
/// step there. `area` is who asks: "[train] --optimizer ...".
Status check_on_device(std::string_view area, const OptimizerRecord& optimizer,
                       const OptimizerRegistry& optimizers, const Device& device);

}  // namespace dlpipe::engine
