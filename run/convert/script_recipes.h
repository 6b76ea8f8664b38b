// Recipes in a Python program: every Compose in it, and transforms and lists of them that have a name or stand alone. All other
// statements are passed over; nothing is run. Pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/io/formats/json.h"

namespace dlpipe::run {

struct ScriptRecipe {
  std::string
      name;  // "train", "data_transforms.val": as much as tells it from the others; "name:LINE" where nothing else does
  int line = 1;  // where it begins
  formats::Json calls =
      {};  // an array of the transforms, in transform_text.h's form, each with its "line" in a text of several
  std::vector<std::string> notes = {};  // what was taken for a value that only a run would know
};

/// All of them that no other one uses, in the program's order. `name` is that of the one that is meant, which may also be one that
/// others use, or the function's that gives it. kCorrupt: none, or no text of a program, with the line.
Result<std::vector<ScriptRecipe>> script_recipes(std::string_view text, std::string_view name = {});

}  // namespace dlpipe::run
