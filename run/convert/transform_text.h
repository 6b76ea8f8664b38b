// Reading recipes: into one tree, whatever they are written in. A transform is an object {"name", "args": [...],
// "kwargs": {...}} whose arguments may be transforms too; other values are JSON's, ranges and tuples arrays. A call in a program
// (script_recipes.h), as "T.Resize(256)", has the member "module", "T", and its "line"; what can't be read in place of a transform is
// {"text", "line"}. A name without a value is a text. Pure functions.
#pragma once

#include <string_view>

#include "dlpipe/base/error.h"
#include "dlpipe/io/formats/json.h"

namespace dlpipe::run {

/// A word as a number, a truth value, nothing, or itself; Python's and YAML's spellings.
formats::Json word_value(std::string_view word);

/// The part of YAML that Albumentations writes: blocks of keys and of dashes, plain and quoted words.
Result<formats::Json> parse_block_yaml(std::string_view text);

}  // namespace dlpipe::run
