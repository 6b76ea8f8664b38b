#include "dlpipe/io/data/sources/lists/csv.h"

#include <algorithm>
#include <cctype>

#include "dlpipe/base/text.h"

namespace dlpipe::data {

std::string with_decimal_point(std::string_view cell) {
  const size_t comma = cell.find(',');
  if (comma == std::string_view::npos || cell.find('.') != std::string_view::npos) return {};
  std::string number(cell);
  number[comma] = '.';
  double value = 0;
  const bool has_fraction =
      comma + 1 < cell.size() && std::isdigit(static_cast<unsigned char>(cell[comma + 1]));
  return has_fraction && parse_double(number, &value) ? number : std::string();
}

bool parse_number(std::string_view cell, char separator, double* value) {
  return parse_double(cell, value) || (separator == ';' && parse_double(with_decimal_point(cell), value));
}

void CsvReader::advance() {
  if (text_[at_++] == '\n') ++line_;
}

void CsvReader::skip_blanks() {
  while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t') && text_[at_] != separator_)
    advance();
}

bool CsvReader::at_cell_end() const {
  return at_ >= text_.size() || text_[at_] == separator_ || text_[at_] == '\n' || text_[at_] == '\r';
}

Result<std::string> CsvReader::read_quoted() {
  const int64_t begin = line_;
  std::string cell;
  advance();
  while (true) {
    if (at_ >= text_.size())
      return Status(ErrorCode::kCorrupt, concat("line ", begin, ": a quote is never closed"));
    if (text_[at_] == '"') {
      advance();
      if (at_ >= text_.size() || text_[at_] != '"') break;
    }
    cell += text_[at_];
    advance();
  }
  skip_blanks();
  if (!at_cell_end())
    return Status(ErrorCode::kCorrupt, concat("line ", line_,
                                              ": text behind a closing quote; double the quotes that "
                                              "belong to a cell"));
  return cell;
}

Result<std::string> CsvReader::read_cell() {
  skip_blanks();
  if (at_ < text_.size() && text_[at_] == '"') return read_quoted();
  const size_t begin = at_;
  while (!at_cell_end()) advance();
  return std::string(trim(text_.substr(begin, at_ - begin)));
}

Result<bool> CsvReader::next(std::vector<std::string>& cells, int64_t& line) {
  while (at_ < text_.size()) {
    cells.clear();
    line = line_;
    while (true) {
      DLPIPE_ASSIGN_OR_RETURN(std::string cell, read_cell());
      cells.push_back(std::move(cell));
      if (at_ >= text_.size() || text_[at_] != separator_) break;
      advance();
    }
    if (at_ < text_.size() && text_[at_] == '\r') advance();
    if (at_ < text_.size() && text_[at_] == '\n') advance();
    if (std::any_of(cells.begin(), cells.end(), [](const std::string& cell) { return !cell.empty(); }))
      return true;
  }
  return false;
}

}  // namespace dlpipe::data
