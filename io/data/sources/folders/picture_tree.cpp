#include "dlpipe/io/data/sources/folders/picture_tree.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "dlpipe/io/data/file_name.h"

namespace dlpipe::data {

PictureTree picture_tree(std::span<const SourceEntry> entries) {
  PictureTree root;
  // Those of one folder stand together, a million of them at times.
  std::string_view folder;
  PictureTree* of_folder = &root;
  for (const SourceEntry& entry : entries) {
    const std::string_view own = std::string_view(entry.path).substr(0, entry.path.rfind('/') + 1);
    if (std::exchange(folder, own) == own) {
      ++of_folder->pictures;
      continue;
    }
    PictureTree* at = &root;
    size_t begin = 0;
    for (size_t end = entry.path.find('/'); end != std::string::npos; end = entry.path.find('/', begin)) {
      at = &at->folders[entry.path.substr(begin, end - begin)];
      begin = end + 1;
    }
    ++at->pictures;
    of_folder = at;
  }
  return root;
}

bool is_called_pictures(const std::string& name) {
  static constexpr std::array kNames = {"images", "image", "imgs",     "img",    "jpg",
                                        "jpeg",   "png",   "pictures", "photos", "jpegimages"};
  return std::find(kNames.begin(), kNames.end(), lower_text(name)) != kNames.end();
}

std::vector<std::string> lone_folders(const PictureTree& tree) {
  std::vector<std::string> names;
  for (const PictureTree* at = &tree; at->pictures == 0 && at->folders.size() == 1;
       at = &at->folders.begin()->second)
    names.push_back(at->folders.begin()->first);
  return names;
}

const PictureTree& below(const PictureTree& tree, std::span<const std::string> folders) {
  const PictureTree* at = &tree;
  for (const std::string& name : folders) at = &at->folders.at(name);
  return *at;
}

bool is_each_wrapped(const PictureTree& tree) {
  const auto inner = [](const PictureTree& folder) {
    const bool is_wrapped =
        folder.pictures == 0 && folder.folders.size() == 1 && folder.folders.begin()->second.folders.empty();
    return is_wrapped ? folder.folders.begin()->first : std::string();
  };
  if (tree.folders.empty()) return false;
  const std::string first = inner(tree.folders.begin()->second);
  return std::all_of(tree.folders.begin(), tree.folders.end(), [&](const auto& folder) {
    const std::string name = inner(folder.second);
    return !name.empty() && (name == first || name == folder.first);
  });
}

bool is_two_deep(const PictureTree& tree) {
  return std::all_of(tree.folders.begin(), tree.folders.end(), [](const auto& top) {
    return top.second.pictures == 0 &&
           std::all_of(top.second.folders.begin(), top.second.folders.end(),
                       [](const auto& folder) { return folder.second.folders.empty(); });
  });
}

}  // namespace dlpipe::data
