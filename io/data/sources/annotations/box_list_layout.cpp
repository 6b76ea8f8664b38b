#include "dlpipe/io/data/sources/annotations/box_list_layout.h"
#include "dlpipe/io/data/sources/source_file.h"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <set>
#include <span>

#include "dlpipe/base/printable.h"
#include "dlpipe/base/refuse.h"
#include "dlpipe/base/text.h"
#include "dlpipe/io/data/file_name.h"
#include "dlpipe/io/data/sources/lists/csv.h"
#include "dlpipe/io/data/sources/lists/manifest_source.h"
#include "dlpipe/io/data/sources/split_layout.h"

namespace dlpipe::data::box_list {

namespace fs = std::filesystem;

std::optional<Columns> columns_in(const std::string& file) {
  if (!is_file(file)) return std::nullopt;
  std::string text(size_t{64} << 10, '\0');
  std::ifstream stream(file, std::ios::binary);
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(stream.gcount()));
  const auto list = list_text(file, std::as_bytes(std::span(text)));
  return list.ok() ? columns_in(file, *list) : std::nullopt;
}

std::optional<Columns> columns_in(const std::string& file, std::string_view text) {
  std::vector<std::string> cells;
  int64_t line = 0;
  const char separator = separator_of(file, text);
  const auto more = CsvReader(text, separator).next(cells, line);
  return more.ok() && *more ? columns_of(cells, separator) : std::nullopt;
}

namespace {

/// The lists of boxes in a folder, by their names.
std::vector<Part> lists_in(const fs::path& folder) {
  std::vector<Part> parts;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    const std::string ending = lower_ending(name);
    if (name[0] == '.' || (ending != "csv" && ending != "tsv")) continue;
    if (columns_in(entry.path().string()))
      parts.push_back({entry.path().string(), entry.path().stem().string(),
                       split_in_words(entry.path().stem().string())});
  }
  std::sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.file < b.file; });
  return parts;
}

/// Those in `root`, or in its folders that are called as splits, or in the one that people lay lists into.
std::vector<Part> lists_of(const fs::path& root) {
  std::vector<Part> parts = lists_in(root);
  if (!parts.empty()) return parts;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(root, error)) {
    const std::string name = entry.path().filename().string();
    const std::string split(split_of_name(name));
    if (split.empty()) continue;
    std::vector<Part> inside = lists_in(entry.path());
    for (Part& part : inside)
      parts.push_back({std::move(part.file), inside.size() == 1 ? name : name + "/" + part.name, split});
  }
  for (const char* below : {"annotations", "data", "images", "labels"}) {
    if (parts.empty()) parts = lists_in(root / below);
  }
  std::sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.file < b.file; });
  return parts;
}

}  // namespace

bool holds_lists(const fs::path& folder) {
  return !lists_of(folder).empty();
}

Result<std::vector<Part>> parts_of(const SourceOptions& options) {
  const std::string& given = options.manifest.empty() ? options.path : options.manifest;
  if (!is_folder(given)) return std::vector<Part>{{given, {}}};
  std::vector<Part> parts = lists_of(given);
  if (parts.size() < 2) {
    for (Part& part : parts) part.split.clear();
    return parts;
  }
  std::set<std::string> splits;
  for (Part& part : parts) {
    const bool is_first = splits.insert(part.split).second;
    if (options.splits && (part.split.empty() || !is_first))
      return misuse("ingest", printable(part.file),
                    is_first ? " names no split by its name" : " is another list for the split " + part.split,
                    ", and ", printable(given), " holds ", parts.size(),
                    " lists of boxes; give them by name, one dataset each");
    part.prefix = part.name + "/";
    if (!options.splits) part.split.clear();
  }
  return parts;
}

std::vector<std::string> names_of_folders(const std::string& file) {
  const std::string stem = fs::path(file).stem().string();
  std::vector<std::string> names = {stem};
  std::string word;
  for (const char c : stem + "-") {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      word += c;
    } else if (!word.empty()) {
      names.push_back(std::move(word));
      word.clear();
    }
  }
  if (const std::string split = split_in_words(stem); !split.empty()) names.push_back(split);
  return names;
}

std::optional<std::string> names_of_classes_beside(const std::string& file) {
  const fs::path beside = fs::path(file).parent_path();
  const fs::path folder = beside.empty() ? "." : beside;
  for (const std::string_view ending : {"class-descriptions-boxable.csv", "class-descriptions.csv"}) {
    for (const fs::path& root : {folder, folder / ".."}) {
      std::error_code error;
      for (const auto& entry : fs::directory_iterator(root, error)) {
        const std::string name = entry.path().filename().string();
        if (name[0] != '.' && name.ends_with(ending)) return entry.path().lexically_normal().string();
      }
    }
  }
  const fs::path of_fiftyone = folder / ".." / "metadata" / "classes.csv";
  return is_file(of_fiftyone) ? std::optional(of_fiftyone.lexically_normal().string()) : std::nullopt;
}

}  // namespace dlpipe::data::box_list
