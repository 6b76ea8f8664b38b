// A list of JSON objects, one per line, as a table: the columns are all keys, in the order in which they first stand.
// Pure functions.
#pragma once

#include <cstdint>
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

/// kCorrupt says which line is no object. Empty lines are none.
Result<JsonTable> read_json_lines(std::string_view text);

}  // namespace dlpipe::data
