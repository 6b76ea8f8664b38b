#include "dlpipe/io/data/sources/lists/object_columns.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_set>

#include "dlpipe/base/printable.h"
#include "dlpipe/base/text.h"
#include "dlpipe/io/data/file_name.h"

namespace dlpipe::data {

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

/// Whether objects of a list share their keys so far that a list for each key, with a value for each object, is about as large as
/// their text. (Four nulls for a byte of it.)
bool share_keys(const Json& objects, size_t text_bytes) {
  std::unordered_set<std::string_view> keys;
  for (const Json& object : objects) {
    if (!object.is_object()) return false;
    for (const auto& [key, value] : object.items()) keys.insert(key);
  }
  constexpr size_t kFew = 4096;
  return keys.size() <= kMostColumns && keys.size() * objects.size() <= 4 * text_bytes + kFew;
}

/// What a cell of objects holds by name: a list with a value for each object, null for one without. Null where it is something
/// else, or where hardly any object has what another one has.
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

/// The name of the boxes among what the objects hold; "" where there are none.
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

/// The first cell with something in it says what a column is. An empty list says nothing.
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

/// What is known of a part once all rows are seen.
struct Part {
  std::string key;
  bool all_lists = true;
  bool all_names = true;    // texts or whole numbers, as classes are; or null
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

/// A part that is null throughout is none: the pictures of a test, say.
bool is_labels(const Part& part) {
  return part.all_lists && part.all_names && (part.has_value || !part.has_null) &&
         is_one_of(kCategoryNames, part.key);
}

std::string kind_of(const Part& part, const std::string& name, const std::string& boxes) {
  if (name == boxes) return concat(name, ":boxes-xywh");
  if (!part.all_lists) return {};
  if (is_labels(part)) return concat(name, ":labels:", boxes);
  return part.all_numbers ? concat(name, ":numbers:", boxes) : std::string();
}

/// The first object without a value of `part`; line 0 where each has one.
UnfitCell find_null(const JsonTable& table, const ObjectColumn& object, const std::vector<Json>& rows,
                    const Part& part) {
  for (size_t i = 0; i < rows.size() && part.has_null; ++i) {
    const auto list = rows[i].find(part.key);
    if (list == rows[i].end() || !list->is_array()) continue;
    const auto null = std::find(list->begin(), list->end(), Json());
    if (null == list->end()) continue;
    return {table.rows[i].line,
            concat("object ", null - list->begin() + 1, " of ", in_quotes(table.columns[object.column]),
                   " has no ", in_quotes(part.key), ", as others have; write a box and a class for each")};
  }
  return {};
}

/// Puts the parts in the column's place among `columns` and `cells_of_row`.
std::vector<std::string> take_apart(const ObjectColumn& object, JsonTable& table, UnfitCell& unfit) {
  std::vector<Json> rows;
  std::vector<Part> parts;
  uint64_t text_bytes = 0;
  for (const JsonTable::Row& row : table.rows) {
    const std::string& cell = row.cells[object.column];
    Json lists = cell.empty() ? Json::object() : lists_of(cell);
    if (lists.is_null()) {
      unfit = {row.line,
               concat(in_quotes(cell.substr(0, 40)), " of ", in_quotes(table.columns[object.column]),
                      " is no object, or list of objects with the same keys, as in the first line")};
      return {};
    }
    text_bytes += cell.size();
    for (const auto& [key, value] : lists.items()) {
      auto part =
          std::find_if(parts.begin(), parts.end(), [&key = key](const Part& one) { return one.key == key; });
      if (part == parts.end()) part = parts.insert(parts.end(), Part{key});
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
  for (const Part& part : parts) {
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
    for (const Part& part : parts) {
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
  for (size_t column = table.columns.size(); column-- > 0;) {  // from the end: parts move what stands behind
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
