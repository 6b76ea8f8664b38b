// COCO's JSON of objects in images, unchanged. Its lists are parsed element by element, so that a file of 500 MB does not
// become a tree in memory. Pure functions, any thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/error.h"
#include "io/data/sources/annotations/outlines.h"

namespace dlpipe::data::coco {

struct Annotation {
  std::string image;  // its id, as text
  int64_t category = 0;
  bool is_crowd = false;
  std::optional<Outline> outline = {};  // without its object
  std::string problem = {};             // not empty: why its outline can't be used
  std::vector<float> box;               // x_min, y_min, width, height; empty: none
  std::vector<float> keypoints;         // x, y, visible
};
struct Image {
  std::string id;
  std::string file_name;
  int32_t width = 0;  // both 0: unknown
  int32_t height = 0;
};
struct Category {
  std::string name;
  size_t keypoints = 0;
};
struct Contents {
  std::vector<Image> images;
  std::vector<Annotation> annotations;
  std::map<int64_t, Category> categories;  // by id
};

/// kCorrupt, naming `file` and the element, if it is not JSON, not a list of objects or lists no image; if two images or
/// categories have the same id; or if an annotation has an unknown category.
Result<Contents> parse(std::string_view text, const std::string& file);

}  // namespace dlpipe::data::coco
