// COCO's JSON of objects in pictures, as it stands in the file. Its lists are taken element by element: a file of 500 MB
// doesn't become a tree in memory. Pure functions, any thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/base/error.h"
#include "dlpipe/io/data/sources/annotations/outlines.h"

namespace dlpipe::data::coco {

struct Annotation {
  std::string image;  // its id, as text
  int64_t category = 0;
  bool is_crowd = false;
  std::optional<Outline> outline = {};  // but for its object
  std::string problem = {};             // not empty: why its outline can't be taken
  std::vector<float> box;               // x_min, y_min, width, height; empty: none
  std::vector<float> keypoints;         // x, y, visible
};
struct Picture {
  std::string id;
  std::string file_name;
  int32_t width = 0;  // both 0: not said
  int32_t height = 0;
};
struct Category {
  std::string name;
  size_t keypoints = 0;
};
struct Contents {
  std::vector<Picture> pictures;
  std::vector<Annotation> annotations;
  std::map<int64_t, Category> categories;  // by id
};

/// kCorrupt, naming `file` and the element, for what is no JSON, no list of objects or lists no picture; two pictures or
/// categories of one id; an annotation of a category that there isn't.
Result<Contents> parse(std::string_view text, const std::string& file);

}  // namespace dlpipe::data::coco
