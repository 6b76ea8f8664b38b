#include "dlpipe/io/data/sources/pictures_beside.h"

#include "dlpipe/io/data/sources/source_file.h"

namespace dlpipe::data {

namespace fs = std::filesystem;

std::vector<fs::path> folders_of_pictures(const fs::path& list, const std::string& images,
                                          std::span<const std::string> names) {
  const fs::path beside = list.parent_path().empty() ? "." : list.parent_path();
  std::vector<fs::path> roots = {beside, beside / ".."};
  if (!images.empty()) roots = {images};
  std::vector<fs::path> folders;
  for (const fs::path& root : roots) {
    for (const char* below : {"", "images", "data"}) {
      folders.push_back(root / below);
      for (const std::string& name : names) folders.push_back(root / below / name);
    }
  }
  return folders;
}

FolderWithMost folder_with_most(std::span<const fs::path> folders, std::span<const std::string> paths) {
  FolderWithMost best;
  for (const fs::path& folder : folders) {
    const size_t found = count_files(folder, paths);
    if (found > best.found) best = {folder.lexically_normal().string(), found};
  }
  if (best.folder.size() > 1 && best.folder.ends_with('/')) best.folder.pop_back();
  return best;
}

}  // namespace dlpipe::data
