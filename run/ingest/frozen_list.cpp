// The list of an ingest: its lines as a file, and what has changed in the source since.

#include "run/ingest/frozen_list.h"

#include <algorithm>
#include <array>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/file.h"
#include "base/messages.h"
#include "base/text.h"
#include "dlpipe/dataset.h"
#include "dlpipe/error.h"
#include "dlpipe/source.h"
#include "io/data/sources/source_file.h"
#include "io/data/sources/typed_columns.h"
#include "io/formats/atomic_file.h"
#include "io/formats/json.h"
#include "run/ingest/options.h"
#include "run/ingest/publish.h"

namespace dlpipe::ingest {

namespace {

using formats::Json;

constexpr int64_t kListVersion = 4;
constexpr size_t kOwnFields = 3;  // image, label and path, which every source's entries have

// A line holds tab-separated cells; paths may hold any byte.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f || c == '%') {
      out += concat('%', "0123456789abcdef"[byte >> 4], "0123456789abcdef"[byte & 15]);
    } else {
      out += c;
    }
  }
  return out;
}

std::string unescaped(std::string_view text) {
  const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size()) {
      out += static_cast<char>(digit(text[i + 1]) * 16 + digit(text[i + 2]));
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

std::string header_line(const FrozenList& list) {
  data::DatasetInfo info;
  info.schema = list.schema;
  info.class_counts.resize(list.schema.classes.size());
  Json warnings = Json::array();
  for (const std::string& warning : list.warnings) warnings.push_back(warning);
  Json splits = Json::array();
  for (const FrozenSplit& split : list.splits)
    splits.push_back(
        Json::object({{"name", split.name}, {"entries", static_cast<int64_t>(split.entries.size())}}));
  return Json::object({{"options", list.options},
                       {"schema", data::to_json(info)},
                       {"list_version", kListVersion},
                       {"stored_ratio", list.stored_ratio},
                       {"map_bytes", static_cast<int64_t>(list.map_bytes)},
                       {"estimated_bytes", static_cast<int64_t>(list.estimated_bytes)},
                       {"warnings", std::move(warnings)},
                       {"splits", std::move(splits)}})
      .dump();
}

Status malformed(const std::string& file, std::string_view what) {
  return Status(ErrorCode::kCorrupt, concat("[ingest] ", file, " is malformed: ", what,
                                            "; remove its directory and ingest again"));
}

Result<data::SourceEntry> parse_entry(const std::string& line, const std::string& file) {
  const std::vector<std::string> cells = split(line, '\t');
  constexpr size_t kNumbers = 9;
  constexpr size_t kCells = kNumbers + 2;
  if (cells.size() < kCells) return malformed(file, "a line is truncated");
  std::array<int64_t, kNumbers> numbers{};
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (!parse_int(cells[i], &numbers[i])) return malformed(file, "a number can't be read");
  }
  data::SourceEntry entry;
  entry.size_bytes = static_cast<uint64_t>(numbers[0]);
  entry.modified_ns = numbers[1];
  entry.label = numbers[2];
  entry.place = static_cast<uint64_t>(numbers[3]);
  entry.input = static_cast<uint32_t>(numbers[5]);
  entry.annotated = {static_cast<int32_t>(numbers[6]), static_cast<int32_t>(numbers[7]), numbers[8] != 0};
  entry.problem = unescaped(cells[kNumbers]);
  entry.path = unescaped(cells[kNumbers + 1]);
  if (numbers[4] < 0 || static_cast<uint64_t>(numbers[4]) > entry.path.size())
    return malformed(file, "a name begins after its path");
  entry.name_begin = static_cast<uint64_t>(numbers[4]);
  for (size_t i = kCells; i < cells.size(); ++i) entry.extra.push_back(unescaped(cells[i]));
  return entry;
}

Result<FrozenList> parse_list(const std::string& text, const std::string& file) {
  const size_t last_line = text.size() < 2 ? std::string::npos : text.rfind('\n', text.size() - 2);
  if (last_line == std::string::npos) return malformed(file, "it is truncated");
  const std::string_view body = std::string_view(text).substr(0, last_line + 1);
  if (text.substr(last_line + 1) !=
      concat("end ", hex64(data::checksum64(std::as_bytes(std::span(body)))), "\n"))
    return malformed(file, "its checksum differs");
  std::string_view rest = body;
  std::string line;
  const auto next_line = [&] {  // false if there is none
    const size_t end = rest.find('\n');
    if (end == std::string_view::npos) return false;
    line = rest.substr(0, end);
    rest.remove_prefix(end + 1);
    return true;
  };
  next_line();
  FrozenList list;
  DLPIPE_ASSIGN_OR_RETURN(const Json json, Json::parse(line));
  if (json["list_version"].as_int() != kListVersion)
    return malformed(file, "another version of dlpipe wrote it");
  list.options = json["options"].as_string();
  DLPIPE_ASSIGN_OR_RETURN(const data::DatasetInfo info, data::parse_dataset_info(json["schema"].as_string()));
  list.schema = info.schema;
  list.stored_ratio = json["stored_ratio"].as_double(-1);
  if (!(list.stored_ratio >= 0)) return malformed(file, "no 'stored_ratio'");
  DLPIPE_ASSIGN_OR_RETURN(const int64_t map_bytes, formats::require_int(json, "map_bytes", file));
  DLPIPE_ASSIGN_OR_RETURN(const int64_t estimated_bytes, formats::require_int(json, "estimated_bytes", file));
  list.map_bytes = static_cast<uint64_t>(map_bytes);
  list.estimated_bytes = static_cast<uint64_t>(estimated_bytes);
  for (const Json& warning : json["warnings"].items()) list.warnings.push_back(warning.as_string());
  for (const Json& split : json["splits"].items()) {
    list.splits.push_back({split["name"].as_string(), {}});
    DLPIPE_ASSIGN_OR_RETURN(const int64_t count, formats::require_int(split, "entries", file));
    for (int64_t i = 0; i < count; ++i) {
      if (!next_line()) return malformed(file, "entries are missing");
      DLPIPE_ASSIGN_OR_RETURN(data::SourceEntry entry, parse_entry(line, file));
      list.splits.back().entries.push_back(std::move(entry));
    }
  }
  return list;
}

}  // namespace

int64_t FrozenList::entry_count() const {
  int64_t count = 0;
  for (const FrozenSplit& split : splits) count += static_cast<int64_t>(split.entries.size());
  return count;
}

std::optional<size_t> FrozenList::fold_column() const {
  const auto field = std::ranges::find(schema.fields, data::kFoldField, &data::Field::name);
  const auto place = static_cast<size_t>(field - schema.fields.begin());
  return field == schema.fields.end() || place < kOwnFields ? std::nullopt
                                                            : std::optional(place - kOwnFields);
}

std::vector<uint64_t> FrozenList::borders(const FrozenSplit& split, uint64_t commit_bytes,
                                          int64_t commit_entries) const {
  std::vector<uint64_t> ends;
  double bytes = 0;
  uint64_t begin = 0;
  for (uint64_t i = 0; i < split.entries.size(); ++i) {
    bytes += static_cast<double>(split.entries[i].size_bytes) * stored_ratio;
    const uint64_t end = i + 1;
    if (bytes >= static_cast<double>(commit_bytes) || end - begin >= static_cast<uint64_t>(commit_entries) ||
        end == split.entries.size()) {
      ends.push_back(end);
      begin = end;
      bytes = 0;
    }
  }
  return ends;
}

std::string source_hash(const FrozenList& list) {
  std::string text;
  std::vector<bool> is_mask;  // of the fields after image, label and path
  for (size_t i = kOwnFields; i < list.schema.fields.size(); ++i)
    is_mask.push_back(list.schema.fields[i].kind == data::FieldKind::kMask);
  for (const std::string& name : list.schema.classes) text += escaped(name) + '\n';
  for (const FrozenSplit& split : list.splits) {
    text += concat("split ", split.name, '\n');
    for (const data::SourceEntry& entry : split.entries) {
      text += concat(entry.size_bytes, '\t', entry.label, '\t', escaped(entry.path));
      for (size_t i = 0; i < entry.extra.size(); ++i) {
        const bool refers = i < is_mask.size() && is_mask[i];
        text += '\t' + escaped(refers ? data::lasting_reference(entry.extra[i]) : entry.extra[i]);
      }
      text += '\n';
    }
  }
  return hex64(data::checksum64(std::as_bytes(std::span(text))));
}

Status save_list(const FrozenList& list, const std::string& file) {
  std::string text = header_line(list) + "\n";
  for (const FrozenSplit& split : list.splits) {
    for (const data::SourceEntry& entry : split.entries) {
      text += concat(entry.size_bytes, '\t', entry.modified_ns, '\t', entry.label, '\t', entry.place, '\t',
                     entry.name_begin, '\t', entry.input, '\t', entry.annotated.width, '\t',
                     entry.annotated.height, '\t', entry.annotated.is_relative ? 1 : 0, '\t',
                     escaped(entry.problem), '\t', escaped(entry.path));
      for (const std::string& extra : entry.extra) text += '\t' + escaped(extra);
      text += '\n';
    }
  }
  text += concat("end ", hex64(data::checksum64(std::as_bytes(std::span(text)))), "\n");
  return formats::write_file(file, text);
}

Result<FrozenList> load_list(const std::string& file) {
  constexpr uint64_t kMostBytes = uint64_t{1} << 40;
  DLPIPE_ASSIGN_OR_RETURN(const std::string text, formats::read_file(file, kMostBytes));
  return parse_list(text, file);
}

namespace {

// Finds what has changed since the list was frozen.
class SourceComparison {
 public:
  SourceComparison(const FrozenList& list, const data::SourceListing& now, const IngestOptions& options)
      : list_(list), now_(now), options_(options) {
    std::unordered_map<std::string, int64_t> label_of;
    for (size_t i = 0; i < list.schema.classes.size(); ++i)
      label_of.emplace(list.schema.classes[i], static_cast<int64_t>(i));
    for (const std::string& name : now.classes) {
      const auto it = label_of.find(stored_name(name));
      label_in_list_.push_back(it == label_of.end() ? kUnknown : it->second);
    }
  }

  Status run() const {
    DLPIPE_RETURN_IF_ERROR(compare_fields());
    std::unordered_map<std::string_view, const data::SourceEntry*> found;
    found.reserve(now_.entries.size());
    for (const data::SourceEntry& entry : now_.entries) found.emplace(entry.path, &entry);
    for (const FrozenSplit& split : list_.splits) {
      for (const data::SourceEntry& entry : split.entries) {
        const auto it = found.find(entry.path);
        const std::string how =
            it == found.end() ? "was removed" : difference(entry, *it->second, split.name);
        if (!how.empty()) return changed(concat(printable(entry.path), " ", how));
      }
    }
    return {};
  }

 private:
  static constexpr int64_t kUnknown = -2;  // a class that the list doesn't have

  // The list has class names as they are in a dataset, where bytes that are not UTF-8 are replaced.
  static std::string stored_name(const std::string& name) {
    const auto again = Json::parse(Json(name).dump());
    return again.ok() ? again->as_string() : name;
  }
  Status changed(const std::string& what) const {
    return Status(ErrorCode::kChanged,
                  concat("[ingest] ", what, " since this ingest began; restore it, or remove ",
                         printable(Paths(options_.destination).partial), " and ingest again"));
  }
  /// The list's fields that come from the source, without the one that --folds adds.
  std::span<const data::Field> fields() const {
    const std::span<const data::Field> all = list_.schema.fields;
    const size_t added = kOwnFields + (options_.folds > 0 ? 1 : 0);
    return now_.tokens > 0 || all.size() < added ? std::span<const data::Field>()
                                                 : all.subspan(kOwnFields, all.size() - added);
  }
  Status compare_fields() const {
    const auto is_same = [](const data::Field& a, const data::Field& b) {
      return a.name == b.name && a.kind == b.kind && a.dtype == b.dtype && a.shape == b.shape && a.of == b.of;
    };
    const std::span<const data::Field> was = fields();
    const bool same = std::equal(was.begin(), was.end(), now_.fields.begin(), now_.fields.end(), is_same);
    return same ? Status() : changed(concat(sources_text(options_), " now has other fields for its images"));
  }
  int64_t label_in_list(int64_t label) const {
    return label < 0 ? label : label_in_list_[static_cast<size_t>(label)];
  }
  std::string class_text(const std::vector<std::string>& classes, int64_t label) const {
    return label < 0 ? std::string("none") : in_quotes(classes[static_cast<size_t>(label)]);
  }
  /// How the file differs; "" if it does not.
  std::string difference(const data::SourceEntry& was, const data::SourceEntry& is,
                         const std::string& split) const {
    if (is.size_bytes != was.size_bytes || is.modified_ns != was.modified_ns) return "changed";
    if (is.place != was.place || is.input != was.input) return "is in another place";
    if (options_.split.empty() && is.split != split)
      return concat("moved from split '", printable(split), "' to '", printable(is.split), "'");
    if (label_in_list(is.label) != was.label)
      return concat("changed its class: it is now ", class_text(now_.classes, is.label), " instead of ",
                    class_text(list_.schema.classes, was.label));
    data::SourceEntry renumbered;
    renumbered.extra = is.extra;
    data::renumber_labels(now_.fields, renumbered, [&](int64_t label) { return label_in_list(label); });
    for (size_t i = 0; i < fields().size(); ++i) {
      const bool same = i < was.extra.size() && i < is.extra.size() && renumbered.extra[i] == was.extra[i];
      if (!same) return concat("has another value of ", in_quotes(fields()[i].name));
    }
    const bool is_same_size = is.annotated.width == was.annotated.width &&
                              is.annotated.height == was.annotated.height &&
                              is.annotated.is_relative == was.annotated.is_relative;
    return is_same_size ? "" : "has annotations for another size";
  }

  const FrozenList& list_;
  const data::SourceListing& now_;
  const IngestOptions& options_;
  std::vector<int64_t> label_in_list_;  // by the label in now_
};

}  // namespace

Status compare_with_source(const FrozenList& list, const data::SourceListing& now,
                           const IngestOptions& options) {
  return SourceComparison(list, now, options).run();
}

}  // namespace dlpipe::ingest
