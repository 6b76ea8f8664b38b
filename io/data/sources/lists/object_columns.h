// Columns of a list whose cells are JSON objects with boxes, one object or one for each box, as Hugging Face's datasets have
// them: "objects" with "bbox" and "categories" becomes the columns "objects.bbox" and "objects.categories". Pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/base/error.h"
#include "dlpipe/io/data/sources/lists/json_lines.h"

namespace dlpipe::data {

/// A cell that is no object, or no list of objects: what wrong() is told of it, and its row's line.
struct UnfitCell {
  int64_t line = 0;
  std::string what;
};

/// Takes such columns of `table` apart. Answers what each part is, as --field says it ("objects.bbox:boxes-xywh",
/// "objects.categories:labels:objects.bbox"); a part that is nothing but text is in no answer. `unfit` is the first cell that
/// isn't as the others of its column are; its line is 0 where there is none.
std::vector<std::string> take_objects_apart(JsonTable& table, UnfitCell& unfit);

/// Whether each cell of a column that isn't empty is a JSON list, and there is one.
bool holds_lists(const JsonTable& table, size_t column);

}  // namespace dlpipe::data
