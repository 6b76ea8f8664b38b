#include "io/data/sources/lists/tables.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "base/bytes.h"
#include "base/messages.h"
#include "base/text.h"
#include "io/data/file_name.h"
#include "io/data/sources/source_file.h"

namespace dlpipe::data {

// CSV.

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
                                              ": text after a closing quote; double the quotes that "
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

// JSON lines.

static std::optional<std::vector<std::string>> texts_in(const nlohmann::json& list) {
  if (!list.is_array()) return std::nullopt;
  std::vector<std::string> texts;
  for (const auto& one : list) {
    if (!one.is_string()) return std::nullopt;
    texts.push_back(one.get<std::string>());
  }
  return texts;
}

// The path from "path_bytes", which holds it in base64 if JSON can't hold it as "path".
static std::optional<std::string> path_of_bytes(const nlohmann::ordered_json& line) {
  const auto path = line.find("path"), bytes = line.find("path_bytes");
  if (path == line.end() || bytes == line.end() || !path->is_string() || !bytes->is_string())
    return std::nullopt;
  auto decoded = from_base64(bytes->get_ref<const std::string&>());
  return decoded && !is_utf8(*decoded) ? decoded : std::nullopt;
}

Status check_form(std::string_view json) {
  constexpr size_t kMostDepth = 256;          // the same as for formats::Json
  std::array<size_t, kMostDepth + 1> keys{};  // of the object at each depth
  size_t depth = 0;
  bool is_in_text = false;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (c == '"') is_in_text = !is_in_text;
    if (is_in_text) {
      if (c == '\\') ++i;  // what comes after it, a quote too, is part of the text
    } else if (c == '[' || c == '{') {
      if (++depth > kMostDepth)
        return Status(ErrorCode::kCorrupt,
                      concat("values are nested more than ", kMostDepth, " deep; leave out those that are"));
      keys[depth] = 0;
    } else if (c == ']' || c == '}') {
      depth -= depth > 0 ? 1 : 0;
    } else if (c == ':' && ++keys[depth] > kMostKeys) {
      return Status(ErrorCode::kUnsupported,
                    concat("an object has more than ", human_count(kMostKeys), " keys; leave some out"));
    }
  }
  return {};
}

Status check_table(uint64_t rows, uint64_t columns, uint64_t text_bytes) {
  if (columns > kMostColumns)
    return Status(ErrorCode::kUnsupported, concat("more than ", human_count(kMostColumns),
                                                  " different columns or keys; leave some out"));
  constexpr uint64_t kCellBytes = 2 * sizeof(std::string);  // here and in an entry
  if (columns == 0 || rows <= ReadBudget::most(text_bytes) / (kCellBytes * columns)) return {};
  return Status(ErrorCode::kUnsupported,
                concat("a table of ", columns, " columns or keys and ", rows, " rows is too large for the ",
                       human_bytes(text_bytes), " that it is read from; remove keys that few rows have"));
}

std::optional<FieldLine> take_field_line(std::string_view& text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  const auto json = nlohmann::json::parse(line, nullptr, false);
  if (!json.is_object() || !json.contains("fields")) return std::nullopt;
  FieldLine head;
  for (const auto& [key, value] : json.items()) {
    if (key == "names" && value.is_string()) {
      head.names = value.get<std::string>();
      continue;
    }
    auto texts = key == "fields" || key == "classes" ? texts_in(value) : std::nullopt;
    if (!texts) return std::nullopt;
    (key == "fields" ? head.fields : head.classes) = std::move(*texts);
  }
  text.remove_prefix(line.size());
  return head;
}

Result<JsonTable> read_json_lines(std::string_view text) {
  using Json = nlohmann::ordered_json;
  JsonTable table;
  std::unordered_map<std::string, size_t> place_of;
  int64_t line = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view one = trim(text.substr(at, end - at));
    at = end + 1;
    ++line;
    if (one.empty()) continue;
    const auto in_line = [&](const Status& status) {
      return status.ok() ? status : status.with_context(concat("line ", line, ": "));
    };
    DLPIPE_RETURN_IF_ERROR(in_line(check_form(one)));
    const Json json = Json::parse(one, nullptr, false);
    if (!json.is_object())
      return Status(ErrorCode::kCorrupt,
                    concat("line ", line, ": not a JSON object; write {\"path\": ..., \"label\": ...}"));
    JsonTable::Row row;
    row.line = line;
    const std::optional<std::string> odd_path = path_of_bytes(json);
    for (const auto& [key, value] : json.items()) {
      if (odd_path && key == "path_bytes") continue;
      const auto [it, fresh] = place_of.emplace(key, table.columns.size());
      if (fresh) table.columns.push_back(key);
      if (fresh)
        DLPIPE_RETURN_IF_ERROR(
            in_line(check_table(table.rows.size() + 1, table.columns.size(), text.size())));
      row.cells.resize(std::max(row.cells.size(), it->second + 1));
      if (!value.is_null())
        row.cells[it->second] = value.is_string()
                                    ? value.get<std::string>()
                                    : value.dump(-1, ' ', false, Json::error_handler_t::replace);
      if (odd_path && key == "path") row.cells[it->second] = *odd_path;
    }
    table.rows.push_back(std::move(row));
    DLPIPE_RETURN_IF_ERROR(in_line(check_table(table.rows.size(), table.columns.size(), text.size())));
  }
  for (JsonTable::Row& row : table.rows) row.cells.resize(table.columns.size());
  return table;
}

// Columns of objects.

namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<std::string_view, 6> kBoxNames = {"bbox",  "bboxes",       "box",
                                                       "boxes", "bounding_box", "bounding_boxes"};
constexpr std::array<std::string_view, 6> kCategoryNames = {"category", "categories", "label",
                                                            "labels",   "class",      "classes"};

template <size_t N>
bool is_one_of(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), lower_text(name)) != names.end();
}

/// Whether the objects of a list share most of their keys. Otherwise a list for each key, with a value for each object, could
/// be much larger than their text. (The limit is four values per byte of text.)
bool share_keys(const Json& objects, size_t text_bytes) {
  std::unordered_set<std::string_view> keys;
  for (const Json& object : objects) {
    if (!object.is_object()) return false;
    for (const auto& [key, value] : object.items()) keys.insert(key);
  }
  constexpr size_t kFew = 4096;
  return keys.size() <= kMostColumns && keys.size() * objects.size() <= 4 * text_bytes + kFew;
}

/// Converts a cell of objects to a list per key, with a value for each object, null for objects without the key. A cell that is
/// a single object is returned unchanged. Null if the cell holds something else, or if the objects share hardly any keys.
Json lists_of(const std::string& cell) {
  if (!check_form(cell).ok()) return nullptr;
  Json json = Json::parse(cell, nullptr, false);
  if (json.is_object()) return json;
  if (!json.is_array() || !share_keys(json, cell.size())) return nullptr;
  Json lists = Json::object();
  for (size_t i = 0; i < json.size(); ++i) {
    for (const auto& [key, value] : json[i].items()) {
      Json& list = lists[key];
      while (list.size() < i) list.push_back(nullptr);
      list.push_back(value);
    }
  }
  for (auto& [key, list] : lists.items()) {
    while (list.size() < json.size()) list.push_back(nullptr);
  }
  return lists;
}

/// The key of the boxes; "" if there are none.
std::string boxes_among(const Json& lists) {
  for (const auto& [key, value] : lists.items()) {
    if (is_one_of(kBoxNames, key) && value.is_array()) return key;
  }
  return {};
}

struct ObjectColumn {
  size_t column = 0;
  std::string boxes;
};

/// The first non-empty cell determines the kind of a column. An empty list does not.
std::optional<ObjectColumn> look_at(const JsonTable& table, size_t column) {
  for (const JsonTable::Row& row : table.rows) {
    const std::string& cell = row.cells[column];
    if (cell.empty() || cell == "[]") continue;
    if (cell.front() != '{' && cell.front() != '[') return std::nullopt;
    const std::string boxes = boxes_among(lists_of(cell));
    return boxes.empty() ? std::nullopt : std::optional(ObjectColumn{column, boxes});
  }
  return std::nullopt;
}

/// The properties of a part after all rows were read.
struct ObjectPart {
  std::string key;
  bool all_lists = true;
  bool all_names = true;    // texts or whole numbers, as for classes; or null
  bool all_numbers = true;  // that an f32 holds
  bool has_null = false;
  bool has_value = false;  // other than null

  void see(const Json& value) {
    constexpr int64_t kMostExact = int64_t{1} << 24;
    all_lists = all_lists && value.is_array();
    if (!all_lists) return;
    for (const Json& one : value) {
      (one.is_null() ? has_null : has_value) = true;
      all_names = all_names && (one.is_string() || one.is_number_integer() || one.is_null());
      const bool is_small =
          one.is_number_float() || (one.is_number_integer() && one >= -kMostExact && one <= kMostExact);
      all_numbers = all_numbers && is_small;
    }
  }
};

/// A part that is always null is ignored: for instance, for the images of a test split.
bool is_labels(const ObjectPart& part) {
  return part.all_lists && part.all_names && (part.has_value || !part.has_null) &&
         is_one_of(kCategoryNames, part.key);
}

std::string kind_of(const ObjectPart& part, const std::string& name, const std::string& boxes) {
  if (name == boxes) return concat(name, ":boxes-xywh");
  if (!part.all_lists) return {};
  if (is_labels(part)) return concat(name, ":labels:", boxes);
  return part.all_numbers ? concat(name, ":numbers:", boxes) : std::string();
}

/// The first object without a value of `part`; line 0 if each has one.
UnfitCell find_null(const JsonTable& table, const ObjectColumn& object, const std::vector<Json>& rows,
                    const ObjectPart& part) {
  for (size_t i = 0; i < rows.size() && part.has_null; ++i) {
    const auto list = rows[i].find(part.key);
    if (list == rows[i].end() || !list->is_array()) continue;
    const auto null = std::find(list->begin(), list->end(), Json());
    if (null == list->end()) continue;
    return {table.rows[i].line,
            concat("object ", null - list->begin() + 1, " of ", in_quotes(table.columns[object.column]),
                   " has no ", in_quotes(part.key), ", unlike the others; write a box and a class for each")};
  }
  return {};
}

/// Puts the parts in the column's place among `columns` and `cells_of_row`.
std::vector<std::string> take_apart(const ObjectColumn& object, JsonTable& table, UnfitCell& unfit) {
  std::vector<Json> rows;
  std::vector<ObjectPart> parts;
  uint64_t text_bytes = 0;
  for (const JsonTable::Row& row : table.rows) {
    const std::string& cell = row.cells[object.column];
    Json lists = cell.empty() ? Json::object() : lists_of(cell);
    if (lists.is_null()) {
      unfit = {row.line,
               concat(in_quotes(cell.substr(0, 40)), " of ", in_quotes(table.columns[object.column]),
                      " is not an object, or a list of objects, with the same keys as in the first line")};
      return {};
    }
    text_bytes += cell.size();
    for (const auto& [key, value] : lists.items()) {
      auto part = std::find_if(parts.begin(), parts.end(),
                               [&key = key](const ObjectPart& one) { return one.key == key; });
      if (part == parts.end()) part = parts.insert(parts.end(), ObjectPart{key});
      if (!value.is_null()) part->see(value);
    }
    rows.push_back(std::move(lists));
    const Status fits = check_table(rows.size(), table.columns.size() + parts.size(), text_bytes);
    if (!fits.ok()) {
      unfit = {row.line, std::string(without_area(fits.message()))};
      return {};
    }
  }
  const std::string prefix = concat(table.columns[object.column], ".");
  std::vector<std::string> kinds;
  std::vector<std::string> names;
  for (const ObjectPart& part : parts) {
    if (part.key == object.boxes || is_labels(part)) unfit = find_null(table, object, rows, part);
    if (unfit.line != 0) return {};
    names.push_back(prefix + part.key);
    if (std::string kind = kind_of(part, names.back(), prefix + object.boxes); !kind.empty())
      kinds.push_back(std::move(kind));
  }
  const auto replace = [&](std::vector<std::string>& in, std::vector<std::string> by) {
    const auto at = in.erase(in.begin() + static_cast<ptrdiff_t>(object.column));
    in.insert(at, std::make_move_iterator(by.begin()), std::make_move_iterator(by.end()));
  };
  for (size_t i = 0; i < rows.size(); ++i) {
    std::vector<std::string> cells;
    for (const ObjectPart& part : parts) {
      const auto it = rows[i].find(part.key);
      cells.push_back(it == rows[i].end() || it->is_null() ? std::string()
                      : it->is_string()                    ? it->get<std::string>()
                                        : it->dump(-1, ' ', false, Json::error_handler_t::replace));
    }
    replace(table.rows[i].cells, std::move(cells));
  }
  replace(table.columns, std::move(names));
  return kinds;
}

}  // namespace

std::vector<std::string> take_objects_apart(JsonTable& table, UnfitCell& unfit) {
  std::vector<std::string> all;
  for (size_t column = table.columns.size(); column-- > 0;) {  // from the end: parts move later columns
    const std::optional<ObjectColumn> object = look_at(table, column);
    if (!object) continue;
    const std::vector<std::string> kinds = take_apart(*object, table, unfit);
    if (unfit.line != 0) return {};
    all.insert(all.end(), kinds.begin(), kinds.end());
  }
  return all;
}

bool holds_lists(const JsonTable& table, size_t column) {
  bool holds_one = false;
  for (const JsonTable::Row& row : table.rows) {
    const std::string& cell = row.cells[column];
    if (cell.empty()) continue;
    if (cell.front() != '[' || !Json::accept(cell)) return false;
    holds_one = true;
  }
  return holds_one;
}

}  // namespace dlpipe::data
