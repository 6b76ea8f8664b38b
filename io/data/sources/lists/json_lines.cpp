#include "dlpipe/io/data/sources/lists/json_lines.h"

#include <array>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "dlpipe/base/base64.h"
#include "dlpipe/base/printable.h"
#include "dlpipe/base/text.h"
#include "dlpipe/io/data/sources/read_budget.h"

namespace dlpipe::data {

static std::optional<std::vector<std::string>> texts_in(const nlohmann::json& list) {
  if (!list.is_array()) return std::nullopt;
  std::vector<std::string> texts;
  for (const auto& one : list) {
    if (!one.is_string()) return std::nullopt;
    texts.push_back(one.get<std::string>());
  }
  return texts;
}

// The path that stands in base64 beside one that JSON could not hold.
static std::optional<std::string> path_of_bytes(const nlohmann::ordered_json& line) {
  const auto path = line.find("path"), bytes = line.find("path_bytes");
  if (path == line.end() || bytes == line.end() || !path->is_string() || !bytes->is_string())
    return std::nullopt;
  auto decoded = from_base64(bytes->get_ref<const std::string&>());
  return decoded && !is_utf8(*decoded) ? decoded : std::nullopt;
}

Status check_form(std::string_view json) {
  constexpr size_t kMostDepth = 256;          // as formats::Json has it
  std::array<size_t, kMostDepth + 1> keys{};  // of the object at each depth
  size_t depth = 0;
  bool is_in_text = false;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (c == '"') is_in_text = !is_in_text;
    if (is_in_text) {
      if (c == '\\') ++i;  // what stands behind it, a quote too, is part of the text
    } else if (c == '[' || c == '{') {
      if (++depth > kMostDepth)
        return Status(ErrorCode::kCorrupt, concat("values stand in each other more than ", kMostDepth,
                                                  " deep; leave out what is nested so"));
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
                       human_bytes(text_bytes), " that it is read from; leave keys out that few rows have"));
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
                    concat("line ", line, ": no JSON object; write {\"path\": ..., \"label\": ...}"));
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

}  // namespace dlpipe::data
