// Which folders hold pictures and which their masks, and how a mask is called after its picture. Looks at the file system; any
// thread.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/io/data/sources/annotations/annotated_pictures.h"

namespace dlpipe::data::segmentation {

/// How people call folders and files. A picture's name without `picture_end` and with one of `mask_ends` is its mask's.
struct Naming {
  std::vector<std::string_view> pictures;  // of folders, in small letters
  std::vector<std::string_view> masks;
  std::string_view picture_end;
  std::vector<std::string_view> mask_ends;
  bool has_others;  // beside the masks lie files with other ends: their colours, numbers of objects
};

/// What SRC holds: one pair, or one in each of several folders.
struct Layout {
  std::vector<AnnotatedPictures::Part> parts;
  const Naming* naming = nullptr;  // of all
  std::string text;                // what was found, for people
};

/// Names without ending -> the files below a folder that are called as pictures.
using Files = std::map<std::string, std::string>;

/// A folder below it whose files can't be listed.
std::optional<std::filesystem::path> unreadable_below(const std::filesystem::path& folder);
std::string without_ending(const std::string& path);
/// The masks in a folder.
Files masks_below(const std::filesystem::path& folder, const Naming& naming);
/// What the mask of `picture` is called among `masks`; "" for none.
std::string mask_of(const std::string& picture, const Files& masks, const Naming& naming);
/// Of a folder; no parts where there are no such pairs in it.
Layout layout_of(const std::filesystem::path& root);

}  // namespace dlpipe::data::segmentation
