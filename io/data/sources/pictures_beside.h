// A list names its pictures, and doesn't say where they lie: which folder is meant. Looks at the file system; any thread.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "dlpipe/base/error.h"

namespace dlpipe::data {

/// Where people lay the pictures of `list`: in its folder or the one above, there in images/ or data/ or not, there in one of
/// `names` or not. Below `images` alone where that isn't empty (--images).
std::vector<std::filesystem::path> folders_of_pictures(const std::filesystem::path& list,
                                                       const std::string& images,
                                                       std::span<const std::string> names);

struct FolderWithMost {
  std::string folder;  // without a slash at its end
  size_t found = 0;    // of the paths; 0: in none
};
/// The first of those folders that hold the most of `paths`.
FolderWithMost folder_with_most(std::span<const std::filesystem::path> folders,
                                std::span<const std::string> paths);

/// The folder that holds the most of the first of `paths`, the pictures of `list`: one of folders_of_pictures(). Where none holds any by
/// its path, the pictures are called by their last names, as programs write paths of machines of their own: then these
/// stand in `paths`. kNotFound where that helps neither.
Result<std::string> locate_pictures(const std::string& list, const std::string& images,
                                    std::span<const std::string> names, std::vector<std::string>& paths);

/// Pictures by their names without an ending, as lists of ids give them, in the folder that has the most of them.
class PicturesById {
 public:
  /// Reads the names in `folders`. Of folders that have as many the first one is meant.
  explicit PicturesById(std::span<const std::filesystem::path> folders);

  /// Notes that the list names `id`; whether any of the folders has it.
  bool has(const std::string& id);
  /// The folder that has the most of those so far; "" where none has any.
  std::string folder() const;
  /// The file's name in that folder; "" where it isn't there.
  std::string file_of(const std::string& id) const;

 private:
  struct Folder {
    std::string path;
    std::unordered_map<std::string, std::string> files;  // by id
    size_t found = 0;
  };
  const Folder* best() const;

  std::vector<Folder> folders_;
};

}  // namespace dlpipe::data
