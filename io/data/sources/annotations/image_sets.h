// Lists of names as Pascal VOC has them below its ImageSets: Main's of pictures with boxes, Segmentation's of those with masks.
// Looks at the file system; any thread.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/base/error.h"

namespace dlpipe::data {

/// Pictures' names without an ending, by the splits that the lists make; empty lists make none.
using ImageSets = std::map<std::string, std::vector<std::string>>;

/// train.txt, val.txt and test.txt of ROOT/ImageSets/KIND; trainval.txt is train where there is no train.txt. Empty where
/// there are none of them.
Result<ImageSets> read_image_sets(const std::filesystem::path& root, std::string_view kind);

}  // namespace dlpipe::data
