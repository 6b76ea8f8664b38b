// One annotation of Pascal VOC: the XML of a picture. Pure functions, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "dlpipe/base/error.h"

namespace dlpipe::data::voc {

struct Object {
  std::string name;
  std::vector<float> box;  // x_min, y_min, x_max, y_max, from the upper left corner of the picture
  bool is_difficult = false;
};
struct Annotation {
  std::string file_name;  // "": not said
  int32_t width = 0;      // both 0: not said
  int32_t height = 0;
  std::vector<Object> objects;
};

/// VOC counts pixels from 1 and names the last one that is inside: pixels xmin to xmax are the box xmin - 1 to xmax here.
/// An object with several boxes becomes one for each. The XML may be in any encoding that xml_encoding.h knows.
/// kCorrupt for what is no such XML, for an object without a name or a box, or with a box that isn't four numbers, and
/// where something is said twice in two ways; kUnsupported names an encoding.
Result<Annotation> parse(std::span<const std::byte> bytes);

}  // namespace dlpipe::data::voc
