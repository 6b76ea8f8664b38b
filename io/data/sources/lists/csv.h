// Records of a list as RFC 4180 has them: cells between separators; quoted cells may hold separators, newlines and
// doubled quotes. Blanks around cells that aren't quoted don't count; lines without any text are no records. One
// thread; the text must outlive the reader.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/base/error.h"

namespace dlpipe::data {

/// "1,5" as "1.5"; "" for what is no number with a decimal comma. Spreadsheets write these where ; stands between cells.
std::string with_decimal_point(std::string_view cell);
/// As parse_double; between ; a number may have a decimal comma.
bool parse_number(std::string_view cell, char separator, double* value);

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

}  // namespace dlpipe::data
