#include "dlpipe/io/data/sources/lists/celeba_lists.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <string_view>

#include "dlpipe/base/printable.h"
#include "dlpipe/base/text.h"
#include "dlpipe/io/data/file_name.h"
#include "dlpipe/io/data/sources/lists/manifest_source.h"

namespace dlpipe::data::celeba {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPartition = "list_eval_partition";

std::string stem_of(const std::string& list) {
  return lower_text(fs::path(list).stem().string());
}

bool is_box(std::span<const std::string> names) {
  constexpr std::array<std::string_view, 4> kBox = {"x_1", "y_1", "width", "height"};
  return std::equal(names.begin(), names.end(), kBox.begin(), kBox.end());
}

/// lefteye_x, lefteye_y, righteye_x, ...
bool are_points(std::span<const std::string> names) {
  for (size_t i = 0; i < names.size(); ++i) {
    if (!names[i].ends_with(i % 2 == 0 ? "_x" : "_y")) return false;
  }
  return !names.empty() && names.size() % 2 == 0;
}

/// Whether boxes and landmarks of `list` are places in the pictures of `folder`.
bool are_of(const std::string& list, const std::string& folder) {
  const std::string name = lower_text(fs::path(folder).filename().string());
  const bool is_aligned = stem_of(list).find("_align") != std::string::npos;
  return is_aligned ? name != "img_celeba" : name.find("_align") == std::string::npos;
}

}  // namespace

std::vector<std::string> picture_folders(const std::string& list) {
  const std::vector<std::string> aligned = {"img_align_celeba", "Img/img_align_celeba",
                                            "img_align_celeba/img_align_celeba"};
  const std::vector<std::string> found = {"img_celeba", "Img/img_celeba"};
  const std::string stem = stem_of(list);
  const bool is_of_found = stem == "list_bbox_celeba" || stem == "list_landmarks_celeba";
  std::vector<std::string> folders = is_of_found ? found : aligned;
  const std::vector<std::string>& others = is_of_found ? aligned : found;
  folders.insert(folders.end(), others.begin(), others.end());
  return folders;
}

Column column_of(const std::string& list, std::span<const std::string> names, const std::string& folder) {
  const bool fits = are_of(list, folder);
  if (fits && is_box(names))
    return {"boxes", "boxes-xywh", "with a box each (x, y, width, height), in the field 'boxes'"};
  if (fits && are_points(names)) {
    std::vector<std::string> points;
    for (size_t i = 0; i < names.size(); i += 2) points.push_back(names[i].substr(0, names[i].size() - 2));
    return {
        "points", "points",
        concat("with ", points.size(), " points each (", quoted_names(points), "), in the field 'points'")};
  }
  constexpr size_t kShown = 4;
  const bool are_places = is_box(names) || are_points(names);
  return {"target", "numbers",
          concat("with ", names.size(), " numbers each (", quoted_names(names, kShown),
                 "), in the field 'target'",
                 are_places ? " (they are places in other pictures than these)" : "")};
}

std::string cell_of(const Column& column, std::span<const std::string> numbers) {
  std::string cell;
  for (size_t i = 0; i < numbers.size(); ++i) {
    cell += concat(i == 0 ? "" : "|", numbers[i]);
    if (column.kind == "points" && i % 2 == 1) cell += "|1";  // all of them are visible
  }
  return cell;
}

std::optional<std::string> partition_of(const std::string& list) {
  const std::string stem = stem_of(list);
  if (stem == kPartition) return list;
  if (stem.find("celeba") == std::string::npos) return std::nullopt;
  const fs::path folder = fs::path(list).parent_path();
  for (const char* place : {".", "..", "Eval", "../Eval"}) {
    const fs::path file = (folder.empty() ? fs::path(".") : folder) / place / concat(kPartition, ".txt");
    std::error_code ignored;
    if (fs::is_regular_file(file, ignored)) return file.lexically_normal().string();
  }
  return std::nullopt;
}

Result<std::unordered_map<std::string, std::string>> read_partition(const std::string& file) {
  constexpr std::array<const char*, 3> kSplits = {"train", "val", "test"};
  DLPIPE_ASSIGN_OR_RETURN(const std::string text, read_list_text(file));
  std::unordered_map<std::string, std::string> split_of;
  int64_t number = 0;
  for (const std::string& one : split(text, '\n')) {
    ++number;
    const std::string_view line = trim(one);
    if (line.empty()) continue;
    const size_t blank = line.find_last_of(" \t");
    int64_t partition = -1;
    if (blank == std::string_view::npos || !parse_int(line.substr(blank + 1), &partition) || partition < 0 ||
        partition > 2)
      return Status(ErrorCode::kCorrupt, concat("[ingest] ", printable(file), " line ", number,
                                                ": no picture with 0, 1 or 2 for train, val and test"));
    split_of[std::string(trim(line.substr(0, blank)))] = kSplits[static_cast<size_t>(partition)];
  }
  return split_of;
}

}  // namespace dlpipe::data::celeba
