// What the numbers of CelebA's lists mean, by the lists' names and second lines: attributes, boxes and landmarks are fields, and
// list_eval_partition.txt makes splits. Its pictures lie in img_align_celeba (cut and turned) or img_celeba (as found).
#pragma once

#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "dlpipe/base/error.h"

namespace dlpipe::data::celeba {

/// The folders that hold the pictures of `list`, those first that its boxes and landmarks are of.
std::vector<std::string> picture_folders(const std::string& list);

/// A column of a list's numbers.
struct Column {
  std::string field;
  std::string kind;  // as --field says it
  std::string text;  // what it was taken for, for people: "with a box each, in the field 'boxes'"
};
/// What the numbers that line 2 of `list` calls `names` become, where its pictures lie in `folder`. Boxes and landmarks of
/// other pictures than those stay numbers.
Column column_of(const std::string& list, std::span<const std::string> names, const std::string& folder);
/// A line's numbers as a cell of that column.
std::string cell_of(const Column& column, std::span<const std::string> numbers);

/// list_eval_partition.txt: `list` itself, or beside a list that is called as CelebA's are, or in Eval/ as published.
std::optional<std::string> partition_of(const std::string& list);
/// The split of each picture that such a file names. kCorrupt names a line that has none.
Result<std::unordered_map<std::string, std::string>> read_partition(const std::string& file);

}  // namespace dlpipe::data::celeba
