// One annotation of Pascal VOC: the XML of an image. Pure functions, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "dlpipe/error.h"

namespace dlpipe::data::voc {

struct Object {
  std::string name;
  std::vector<float> box;  // xmin, ymin, xmax, ymax as in the file
  bool is_difficult = false;
};
struct Annotation {
  std::string file_name;  // "": unknown
  int32_t width = 0;      // both 0: unknown
  int32_t height = 0;
  std::vector<Object> objects;
};

/// An object with several boxes becomes several objects. The XML may be in any encoding that browsers know. kCorrupt if it is
/// not such XML, if an object has no name or box or its box is not four numbers, and if values conflict; kUnsupported names an
/// encoding.
Result<Annotation> parse(std::span<const std::byte> bytes);

}  // namespace dlpipe::data::voc
