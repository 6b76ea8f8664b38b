// What is left of drawn objects behind a chain, by augment::Moving alone: what batches are compared with.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "augment/moving.h"
#include "tests/pipeline/drawn_dataset.h"
#include "tests/pipeline/loader_testing.h"

namespace dlpipe::pipeline {

struct MovedObjects {
  std::vector<float> boxes, scores, joints, spots;
  std::vector<int64_t> kinds;
  size_t dropped = 0;  // boxes

  /// Adds what `moving` keeps of one image's; answers how many boxes.
  size_t add(const augment::Moving& moving, DrawnObjects objects) {
    std::vector<uint8_t> kept;
    moving.boxes(objects.boxes, kept);
    moving.points(objects.joints);
    moving.points(objects.spots);
    spots.insert(spots.end(), objects.spots.begin(), objects.spots.end());
    const size_t before = kinds.size();
    for (size_t b = 0; b < kept.size(); ++b) {
      if (kept[b] == 0) continue;
      kinds.push_back(objects.kinds[b]);
      scores.push_back(objects.scores[b]);
      boxes.insert(boxes.end(), objects.boxes.begin() + 4 * b, objects.boxes.begin() + 4 * b + 4);
      joints.insert(joints.end(), objects.joints.begin() + 6 * b, objects.joints.begin() + 6 * b + 6);
    }
    dropped += kept.size() - (kinds.size() - before);
    return kinds.size() - before;
  }

  /// In those of these fields that the batch has, of its sample `i`.
  void expect_in(const Batch& batch, int64_t i) const {
    EXPECT_EQ(rows_of<int64_t>(batch, "kinds", i), kinds);
    for (const auto& [name, rows] :
         {std::pair("boxes", &boxes), {"scores", &scores}, {"joints", &joints}, {"spots", &spots}}) {
      if (batch.field(name) == nullptr) continue;
      EXPECT_EQ(rows_of<float>(batch, name, i), *rows) << name;
    }
  }
};

}  // namespace dlpipe::pipeline
