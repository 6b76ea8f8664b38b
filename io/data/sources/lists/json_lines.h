// A list of JSON objects, one per line, as a table: the columns are all keys, in the order in which they first stand.
// Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/base/error.h"

namespace dlpipe::data {

struct JsonTable {
  struct Row {
    int64_t line = 0;
    std::vector<std::string> cells;  // texts as they are, null and what is missing empty, the rest as JSON
  };
  std::vector<std::string> columns;
  std::vector<Row> rows;
};

/// What a first line {"fields": ["bbox:boxes", ...], "classes": ["dog", ...], "names": "name"} says, which `dlpipe export`
/// writes. The second and third may be missing; another key makes it a line as others.
struct FieldLine {
  std::vector<std::string> fields;   // of the columns, as --field would
  std::vector<std::string> classes;  // in the order of their numbers; empty: by name
  std::string names;                 // the column that says what a sample is called; empty: none
};
/// That line is taken off `text`, all but its end, so that lines keep their numbers. Nothing where there is none.
std::optional<FieldLine> take_field_line(std::string_view& text);

/// Whether brackets in `json` stand within each other more than 256 deep. nlohmann::json copies and writes a value by recursion:
/// ask before either, or a hostile text overflows the stack.
bool nests_too_deep(std::string_view json);

/// kCorrupt says which line is no object, or nests_too_deep. Empty lines are none.
Result<JsonTable> read_json_lines(std::string_view text);

}  // namespace dlpipe::data
