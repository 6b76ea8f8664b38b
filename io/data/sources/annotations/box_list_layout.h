// Which files are lists of boxes, and what lies beside them: the lists of a folder, the folders of their pictures, the names of
// their classes. Looks at the file system and at first lines; any thread.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/base/error.h"
#include "dlpipe/io/data/sources/annotations/box_lines.h"
#include "dlpipe/io/data/sources/source.h"

namespace dlpipe::data::box_list {

/// A list, and what becomes of its pictures.
struct Part {
  std::string file;
  std::string name;
  std::string split = {};
  std::string prefix = {};  // of its samples' paths
};

/// The columns of a file, by its first line; nothing where it is no list of boxes.
std::optional<Columns> columns_in(const std::string& file);
/// The same, of the file's text or its beginning.
std::optional<Columns> columns_in(const std::string& file, std::string_view text);
/// Whether SRC is a folder with such lists: in it, or in its folders that are called as splits, or in the one that people lay lists into.
bool holds_lists(const std::filesystem::path& folder);
/// The lists that SRC or --manifest stands for. kMisuse where several are no splits.
Result<std::vector<Part>> parts_of(const SourceOptions& options);

/// What people call the folder of a list's pictures: as the list, or a word of its name, or the split that this is.
std::vector<std::string> names_of_folders(const std::string& file);
/// class-descriptions-boxable.csv, beside the list or in the folder above, or as FiftyOne downloads it.
std::optional<std::string> names_of_classes_beside(const std::string& file);

}  // namespace dlpipe::data::box_list
