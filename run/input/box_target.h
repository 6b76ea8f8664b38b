// Objects of a batch's images, and what a detector is to answer for each cell of its grid.
//
// Boxes are x_min, y_min, x_max, y_max in pixels of the image as the chain made it. Pure; one thread.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "dlpipe/tensor.h"

namespace dlpipe::run {

struct BoxObject {
  std::array<float, 4> box = {};
  int64_t label = 0;
  bool is_crowd = false;  // a group of objects: what is found in it is neither right nor wrong
};

/// Of some samples, one behind the other: sample i has [offsets[i], offsets[i + 1]).
struct BoxObjects {
  std::vector<BoxObject> all = {};
  std::vector<int64_t> offsets = {0};

  std::span<const BoxObject> of(int64_t sample) const;
  BoxObjects part(int64_t first, int64_t count) const;
};

/// The grid of a detector over images of one size.
struct BoxGrid {
  int64_t height = 0, width = 0;  // of an image, in pixels
  int64_t stride = 0;             // of a cell

  int64_t rows() const { return (height + stride - 1) / stride; }
  int64_t columns() const { return (width + stride - 1) / stride; }
  int64_t cells() const { return rows() * columns(); }
};

/// What each cell is to answer: f32 [samples * cells, classes + 4], 1 for the class of its object, and the distances, in strides, from its
/// middle to the left, upper, right and lower side; zeros where it has none. Rows are what the model's are, so that a loss needs no
/// table of classes on a device. Weights f32 [samples * cells]: the sample's, 0 in crowds.
///
/// A cell's object is the smallest one that its middle is in, nearer than 1.5 strides to the object's middle along each axis (Tian et
/// al., 2019, with centre sampling). An object that so gets no cell, as it is smaller than one, gets the cell that its middle is in, unless
/// another object has it, and its sides are moved to that cell's middle where they do not reach it.
struct BoxTarget {
  engine::Tensor rows, weight;
};
BoxTarget box_target(const BoxObjects& objects, std::span<const float> sample_weight, const BoxGrid& grid,
                     int64_t classes);

}  // namespace dlpipe::run
