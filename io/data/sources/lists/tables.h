// Lists as tables: the cells of CSV and TSV, the keys of JSON lines, and columns of JSON objects with boxes, split into parts.
// One thread; pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/error.h"
#include "io/data/schema.h"

namespace dlpipe::data {

/// "1,5" as "1.5"; "" if it is not a number with a decimal comma. Spreadsheets write these if the separator is ;.
std::string with_decimal_point(std::string_view cell);
/// Like parse_double; with the separator ;, a number may have a decimal comma.
bool parse_number(std::string_view cell, char separator, double* value);

/// Records as in RFC 4180: quoted cells may contain separators, newlines and doubled quotes. Blanks around unquoted cells are
/// ignored; empty lines are not records. The text must outlive the reader.
class CsvReader {
 public:
  CsvReader(std::string_view text, char separator) : text_(text), separator_(separator) {}

  /// False at the end. `line` is where the record began, from 1.
  Result<bool> next(std::vector<std::string>& cells, int64_t& line);

 private:
  void advance();
  void skip_blanks();
  bool at_cell_end() const;
  Result<std::string> read_cell();
  Result<std::string> read_quoted();

  std::string_view text_;
  char separator_;
  size_t at_ = 0;
  int64_t line_ = 1;
};

// JSON objects, one per line, as a table: the columns are all keys, in the order of their first use.

struct JsonTable {
  struct Row {
    int64_t line = 0;
    std::vector<std::string> cells;  // strings unchanged, null and missing values empty, the rest as JSON
  };
  std::vector<std::string> columns;
  std::vector<Row> rows;
};

/// The contents of a first line {"fields": ["bbox:boxes", ...], "classes": ["dog", ...], "names": "name"}, which `dlpipe
/// export` writes. The second and third may be missing; with any other key, it is an ordinary line.
struct FieldLine {
  std::vector<std::string> fields;   // of the columns, as --field would
  std::vector<std::string> classes;  // in numeric order; empty: by name
  std::string names;                 // the column with the samples' names; empty: none
};
/// Removes that line from `text`, except its end, so that lines keep their numbers. nullopt if there is none.
std::optional<FieldLine> take_field_line(std::string_view& text);

/// The most columns of a list: a dataset's fields, plus path, label and split.
inline constexpr size_t kMostColumns = kMostFields + 8;
/// The most keys of a JSON object: an ordered object finds each key by a search of those before.
inline constexpr size_t kMostKeys = 4096;

/// kCorrupt if brackets in `json` are nested more than 256 deep: nlohmann::json copies and writes values recursively, so a
/// hostile text would overflow the stack. kUnsupported if an object has more than kMostKeys. Call it before parsing.
Status check_form(std::string_view json);
/// kUnsupported for more than kMostColumns, and for a table that is too large for its text (ReadBudget).
Status check_table(uint64_t rows, uint64_t columns, uint64_t text_bytes);

/// kCorrupt names the line that is not an object; check_form and check_table also apply. Empty lines are skipped.
Result<JsonTable> read_json_lines(std::string_view text);

// Columns whose cells are JSON objects with boxes, one object or one for each box, as Hugging Face's datasets have them:
// "objects" with "bbox" and "categories" becomes the columns "objects.bbox" and "objects.categories".

/// A cell that is not an object or a list of objects: the message for wrong() and its row's line.
struct UnfitCell {
  int64_t line = 0;
  std::string what;
};

/// Splits such columns of `table` into parts. Returns what each part is, in --field's syntax ("objects.bbox:boxes-xywh",
/// "objects.categories:labels:objects.bbox"), without parts that are only text. `unfit` is the first cell that differs in form
/// from the others of its column; its line is 0 if there is none.
std::vector<std::string> take_objects_apart(JsonTable& table, UnfitCell& unfit);

/// Whether all non-empty cells of a column, at least one, are JSON lists.
bool holds_lists(const JsonTable& table, size_t column);

}  // namespace dlpipe::data
