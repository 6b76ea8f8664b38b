#include "dlpipe/io/data/sources/annotations/yolo_layout.h"

#include <algorithm>
#include <array>

#include "dlpipe/io/data/file_name.h"
#include "dlpipe/io/data/sources/source_file.h"
#include "dlpipe/io/data/sources/split_layout.h"

namespace dlpipe::data::yolo {

namespace fs = std::filesystem;

namespace {

constexpr std::array<const char*, 3> kNameLists = {"classes.txt", "obj.names", "_darknet.labels"};

bool holds_labelled_picture(const fs::path& folder) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    std::error_code ignored;
    if (name[0] != '.' && has_image_name(name) &&
        fs::is_regular_file(fs::path(entry.path()).replace_extension(".txt"), ignored))
      return true;
  }
  return false;
}

}  // namespace

fs::path full_path(const fs::path& path) {
  const fs::path full = (fs::current_path() / path).lexically_normal();
  return full.has_filename() ? full : full.parent_path();  // x/images/
}

std::string split_called(const std::string& folder) {
  return split_of_name(folder).empty() ? split_in_words(folder) : std::string(split_of_name(folder));
}

bool is_yaml(const std::string& path) {
  const std::string ending = lower_ending(path);
  return ending == "yaml" || ending == "yml";
}

std::optional<fs::path> config_in(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name[0] != '.' && is_yaml(name)) found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end());
  for (const fs::path& path : found) {
    if (path.stem() == "data" || path.stem() == "dataset") return path;
  }
  return found.size() == 1 && is_folder(folder / "images") && is_folder(folder / "labels")
             ? found.front()
             : std::optional<fs::path>();
}

std::string name_list_in(const fs::path& folder) {
  for (const char* name : kNameLists) {
    std::error_code ignored;
    if (fs::is_regular_file(folder / name, ignored)) return (folder / name).string();
  }
  return {};
}

std::vector<std::string> folders_of_both(const fs::path& root) {
  const bool is_named = !name_list_in(root).empty();  // few are: pictures are looked at in these alone
  if (is_named && holds_labelled_picture(root)) return {""};
  std::vector<std::string> folders;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(root, error)) {
    if ((is_named || !name_list_in(entry.path()).empty()) && holds_labelled_picture(entry.path()))
      folders.push_back(entry.path().filename().string());
  }
  std::sort(folders.begin(), folders.end());
  return folders;
}

std::string label_path(const std::string& picture) {
  constexpr std::string_view kImages = "/images/";
  std::string path = picture;
  if (const size_t at = path.rfind(kImages); at != std::string::npos)
    path.replace(at, kImages.size(), "/labels/");
  const fs::path beside = fs::path(picture).replace_extension(".txt");
  std::error_code ignored;
  if (fs::exists(beside, ignored)) return beside.string();
  return fs::path(path).replace_extension(".txt").string();
}

bool holds_class_folders(const fs::path& images, const fs::path& labels) {
  size_t folders = 0;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(images, error)) {
    const std::string name = entry.path().filename().string();
    std::error_code ignored;
    if (name[0] == '.') continue;
    if (!entry.is_directory(ignored) || !split_called(name).empty() || is_folder(labels / name)) return false;
    ++folders;
  }
  return folders > 0;
}

std::optional<Around> dataset_around(const std::string& given) {
  const fs::path folder = full_path(given);
  Around around;
  around.is_of_split = folder.filename() != "images";
  const fs::path images = around.is_of_split ? folder.parent_path() : folder;
  if (images.filename() != "images" || !is_folder(folder)) return std::nullopt;
  const fs::path labels = images.parent_path() / "labels" / (around.is_of_split ? folder.filename() : "");
  if (!holds_ending(labels, "txt")) return std::nullopt;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    std::error_code ignored;
    if (name[0] == '.' || !entry.is_directory(ignored)) continue;
    if (around.is_of_split || split_in_words(name).empty()) return std::nullopt;
  }
  around.root = (fs::path(given) / (around.is_of_split ? "../.." : "..")).lexically_normal().string();
  if (around.root.size() > 1 && around.root.ends_with('/')) around.root.pop_back();
  return around;
}

}  // namespace dlpipe::data::yolo
