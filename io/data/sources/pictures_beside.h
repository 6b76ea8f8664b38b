// A list names its pictures, and doesn't say where they lie: which folder is meant. Looks at the file system; any thread.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

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

}  // namespace dlpipe::data
