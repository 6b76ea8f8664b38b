#include "dlpipe/io/data/sources/pictures_beside.h"

#include <algorithm>
#include <set>
#include <unordered_set>
#include <utility>

#include "dlpipe/base/printable.h"
#include "dlpipe/base/text.h"
#include "dlpipe/io/data/file_name.h"
#include "dlpipe/io/data/sources/source_file.h"

namespace dlpipe::data {

namespace fs = std::filesystem;

namespace {

/// The last name of a path of any system: Label Studio writes ../../label-studio/data/media/upload/1/a.jpg, and images\\a.jpg.
std::string last_name(const std::string& path) {
  return path.substr(path.find_last_of("/\\") + 1);
}

/// Whether the last names of all pictures tell them apart.
bool have_last_names(std::span<const std::string> paths) {
  std::unordered_set<std::string> names;
  return std::all_of(paths.begin(), paths.end(),
                     [&](const std::string& path) { return names.insert(last_name(path)).second; });
}

std::string without_slash(std::string folder) {
  if (folder.size() > 1 && folder.ends_with('/')) folder.pop_back();
  return folder;
}

}  // namespace

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
  best.folder = without_slash(std::move(best.folder));
  return best;
}

Result<std::string> locate_pictures(const std::string& list, const std::string& images,
                                    std::span<const std::string> names, std::vector<std::string>& paths) {
  const std::vector<fs::path> folders = folders_of_pictures(list, images, names);
  std::vector<std::string> first(
      paths.begin(), paths.begin() + static_cast<ptrdiff_t>(std::min(kFilesThatDecide, paths.size())));
  if (const FolderWithMost best = folder_with_most(folders, first); best.found > 0) return best.folder;
  if (have_last_names(paths)) {
    for (std::string& path : first) path = last_name(path);
    if (const FolderWithMost best = folder_with_most(folders, first); best.found > 0) {
      for (std::string& path : paths) path = last_name(path);
      return best.folder;
    }
  }
  return Status(
      ErrorCode::kNotFound,
      concat("[ingest] ", printable(list), " lists ", paths.empty() ? "no picture" : printable(paths[0]),
             ", but neither it nor the next ones are in ",
             images.empty() ? "its folder or those beside it" : printable(images),
             "; name the folder of its pictures with --images"));
}

PicturesById::PicturesById(std::span<const fs::path> folders) {
  std::set<fs::path> seen;
  for (const fs::path& path : folders) {
    std::error_code ignored;
    if (!seen.insert(fs::weakly_canonical(path, ignored)).second) continue;
    Folder folder{without_slash(path.lexically_normal().string()), {}};
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(path, error)) {
      const std::string name = entry.path().filename().string();
      if (name[0] == '.' || !has_image_name(name)) continue;
      std::string& file = folder.files[entry.path().stem().string()];
      if (file.empty() || name < file) file = name;  // whatever order the folder has
    }
    if (!folder.files.empty()) folders_.push_back(std::move(folder));
  }
}

bool PicturesById::has(const std::string& id) {
  bool found = false;
  for (Folder& folder : folders_) {
    if (!folder.files.contains(id)) continue;
    ++folder.found;
    found = true;
  }
  return found;
}

const PicturesById::Folder* PicturesById::best() const {
  const auto most = std::max_element(folders_.begin(), folders_.end(),
                                     [](const Folder& a, const Folder& b) { return a.found < b.found; });
  return most == folders_.end() || most->found == 0 ? nullptr : &*most;
}

std::string PicturesById::folder() const {
  return best() == nullptr ? std::string() : best()->path;
}

std::string PicturesById::file_of(const std::string& id) const {
  const Folder* const folder = best();
  if (folder == nullptr) return {};
  const auto file = folder->files.find(id);
  return file == folder->files.end() ? std::string() : file->second;
}

}  // namespace dlpipe::data
