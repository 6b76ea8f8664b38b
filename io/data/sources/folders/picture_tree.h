// The folders below a root that hold pictures, as a tree: whether those at the top are classes, or something else that the classes
// lie in. Pure functions of the pictures' paths.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "dlpipe/io/data/sources/source.h"

namespace dlpipe::data {

struct PictureTree {
  size_t pictures = 0;                         // directly in it
  std::map<std::string, PictureTree> folders;  // those that hold pictures at any depth
};

/// Of paths of pictures below the root.
PictureTree picture_tree(std::span<const SourceEntry> entries);

/// Whether people call a folder so that holds pictures and nothing else: images, jpg, ...
bool is_called_pictures(const std::string& name);

/// The folders, each in the one before, that each alone hold all pictures: {"ILSVRC", "Data"}. Empty where several do.
std::vector<std::string> lone_folders(const PictureTree& tree);
/// The tree in the last of these.
const PictureTree& below(const PictureTree& tree, std::span<const std::string> folders);

/// Whether each folder of the tree has its pictures in one folder, which is called as that of the others, or as itself:
/// cat/images/1.jpg and dog/images/2.jpg.
bool is_each_wrapped(const PictureTree& tree);
/// Whether folders of the tree hold folders of pictures and nothing else: plants/rose/1.jpg and animals/cat/2.jpg.
bool is_two_deep(const PictureTree& tree);

}  // namespace dlpipe::data
