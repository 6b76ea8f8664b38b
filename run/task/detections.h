// From a detector's outputs to boxes: cells above a score, without those that overlap a better one.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "run/input/box_target.h"
#include "run/task/coco_map.h"

namespace dlpipe::run {

/// The boxes of one image, the highest score first, of equal ones the first cell's and class's first. `outputs`: the cells of `grid`,
/// [cells, classes + 4]. Boxes end at the image's sides. Scores are above 0.05; of the 1000 highest, boxes that overlap a better one of
/// their class by more than 0.6 are left out, and 100 at most are returned. Numbers that are not finite give no box.
std::vector<FoundBox> find_boxes(std::span<const float> outputs, const BoxGrid& grid, int64_t classes);

/// Which of `boxes` remain, the highest score first: those that no better one of their class overlaps by more than `most` (intersection over
/// union in f32). torchvision's batched_nms, number for number, where it goes class by class.
std::vector<size_t> suppress_overlaps(std::span<const FoundBox> boxes, float most);

}  // namespace dlpipe::run
