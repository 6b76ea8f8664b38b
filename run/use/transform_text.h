// Reading recipes: into one tree, whatever they are written in. A transform is an object {"name", "args": [...],
// "kwargs": {...}} whose arguments may be transforms too; other values are JSON's, ranges and tuples arrays. Pure functions.
#pragma once

#include <string_view>

#include "dlpipe/base/error.h"
#include "dlpipe/io/formats/json.h"

namespace dlpipe::run {

/// Transforms as Python writes them, one after another: "T.Compose([T.Resize(256), ...])". An array of them. Imports are left out;
/// `name = value` gives a name, whose value stands for it below. `recipe` is the name of the one that is meant; without it kCorrupt lists
/// the names where there are several.
/// Dictionaries become objects. A call written as "T.Resize(256)" has the member "module", "T". A name without a value is a text.
Result<formats::Json> parse_transform_calls(std::string_view text, std::string_view recipe = {});

/// The part of YAML that Albumentations writes: blocks of keys and of dashes, plain and quoted words.
Result<formats::Json> parse_block_yaml(std::string_view text);

}  // namespace dlpipe::run
