// What each transform of torchvision, Albumentations and timm is called here, with its parameters. Internal to convert_augment.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "dlpipe/run/convert/transform_call.h"

namespace dlpipe::run {

/// A transform's expression; nothing where a size that it needs is not given.
using TransformText = std::optional<std::string>;

/// Names that both libraries use take the parameters of either.
using TransformRule = std::function<TransformText(const TransformCall& t)>;

/// What dlpipe does anyway, or nothing.
bool is_no_op(std::string_view name);
/// Whether it holds others: Compose, OneOf, ...
bool is_container(std::string_view name);
/// Empty where dlpipe has no such op.
TransformRule transform_rule(std::string_view name);

// The rules, in a file per kind of op.
using TransformRules = std::map<std::string, TransformRule, std::less<>>;
const TransformRules& size_rules();    // sizes and places: transform_sizes.cpp
const TransformRules& warp_rules();    // flips, turns and warps: transform_warps.cpp
const TransformRules& colour_rules();  // transform_colours.cpp
const TransformRules& noise_rules();   // blurs, noise, holes: transform_noise.cpp
const TransformRules& policy_rules();  // transform_policies.cpp
const TransformRules& timm_rules();    // transform_timm.cpp
/// RandomErasing where its arguments are timm's.
TransformText timm_erasing(const TransformCall& t);

/// Of an op whose only parameter is its probability: op(p).
TransformRule chance(const char* op, size_t place, double fallback);

}  // namespace dlpipe::run
