// A list of JSON objects, one per line, as a table: the columns are all keys, in the order in which they first stand.
// Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/base/error.h"
#include "dlpipe/io/data/schema.h"

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

/// Columns of a list: a dataset's fields, and those that are none (path, label, split).
inline constexpr size_t kMostColumns = kMostFields + 8;
/// Keys of one object in JSON: a value that keeps their order finds each by a look at those before.
inline constexpr size_t kMostKeys = 4096;

/// kCorrupt where brackets in `json` stand within each other more than 256 deep: nlohmann::json copies and writes a value by
/// recursion, and a hostile text would overflow the stack. kUnsupported where an object has more than kMostKeys. Ask before
/// it is parsed.
Status check_form(std::string_view json);
/// kUnsupported for more than kMostColumns, and for a table that is larger than its text may make one (read_budget.h).
Status check_table(uint64_t rows, uint64_t columns, uint64_t text_bytes);

/// kCorrupt says which line is no object; check_form and check_table hold. Empty lines are none.
Result<JsonTable> read_json_lines(std::string_view text);

}  // namespace dlpipe::data
