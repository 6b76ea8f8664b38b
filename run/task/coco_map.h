// COCO's average precision of boxes (Lin et al., "Microsoft COCO", 2014). It has the same results as COCO's tool, pycocotools
// 2.0.11; tests/interop/read_boxes.py compares them.
//
// Pure; one thread. Cost: memory for one class at a time, with one overlap for each found box and object of each image.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "run/input/box_coding.h"

namespace dlpipe::run {

struct MapImage {
  std::vector<FoundBox> found;
  std::vector<BoxObject> objects;
};

/// Figures of one class; NaN if it has no object other than crowds.
struct ClassMap {
  double ap = 0;              // the mean over overlaps of 0.5, 0.55 ... 0.95
  double ap50 = 0, ap75 = 0;  // at one overlap
  double small = 0, medium = 0,
         large = 0;     // as `ap`, for objects of up to 32 x 32 pixels, up to 96 x 96, and larger ones
  int64_t objects = 0;  // without crowds
  int64_t found = 0;
};

/// Returns one for each class. For each image and class, the 100 boxes with the highest scores count. Boxes with equal scores are
/// in the order of images, and within an image in their own order.
std::vector<ClassMap> coco_map(std::span<const MapImage> images, int64_t classes);

}  // namespace dlpipe::run
