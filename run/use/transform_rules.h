// What each transform of torchvision and Albumentations is called here, with its parameters. Internal to convert_augment.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "dlpipe/run/use/transform_call.h"

namespace dlpipe::run {

/// A transform's expression; nothing where a size that it needs is not given. Names that both libraries use take the
/// parameters of either.
using TransformRule = std::function<std::optional<std::string>(const TransformCall& t)>;

/// Empty where dlpipe has no such op.
TransformRule transform_rule(std::string_view name);

}  // namespace dlpipe::run
