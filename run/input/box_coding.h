// The objects of a batch's images, and the codings of boxes: the target of each row of a detector's output for given objects, and
// the boxes that its rows find. There is a record for each coding (dlpipe/models.h): the cells of one grid (box_grid.cpp), and
// the anchors of several levels of torchvision's detectors (box_anchors.cpp). Their losses are in run/config/loss.cpp.
//
// Boxes are x_min, y_min, x_max, y_max in pixels of the image that the chain made. Pure; one thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "dlpipe/error.h"
#include "dlpipe/models.h"
#include "dlpipe/tensor.h"

namespace dlpipe::run {

struct BoxObject {
  std::array<float, 4> box = {};
  int64_t label = 0;
  bool is_crowd = false;  // a group of objects: boxes that are found in it are neither right nor wrong
};

/// The objects of several samples, one after another: sample i has [offsets[i], offsets[i + 1]).
struct BoxObjects {
  std::vector<BoxObject> all = {};
  std::vector<int64_t> offsets = {0};

  std::span<const BoxObject> of(int64_t sample) const;
  BoxObjects part(int64_t first, int64_t count) const;
};

/// A box that a model found, in the pixels of the image that it saw.
struct FoundBox {
  std::array<float, 4> box = {};
  int64_t label = 0;
  float score = 0;
};

/// The rows of a detector of `classes` classes for images of one size.
struct BoxRows {
  const engine::BoxCoding& coding;
  int64_t height = 0, width = 0;  // of the images, in pixels
  int64_t classes = 0;
};

/// The target of each row: f32 [samples * rows, classes + 4 + BoxCodingRecord::more], with 1 for the class of its object, then
/// four numbers that code its box. A row has the form of the model's rows, so that a loss does not need a table of classes on a
/// device. Weights f32 [samples * rows]: 0 if a row does not count, like those without an object in crowds. An object is not
/// learned if its box is empty, or if its label is not a class.
struct BoxTarget {
  engine::Tensor rows, weight;
};

struct BoxCodingRecord {
  const char* name;
  const char* loss;          // the default
  int64_t others;            // BoxCoding::others
  int64_t more;              // numbers of a target row after those of its box
  bool is_by_image = false;  // a batch's loss is the mean over its images; else over its rows with an object
  /// The number of rows for one image.
  int64_t (*rows)(const BoxRows& of);
  /// Writes the rows and weights of one image. They are zeros and the sample's weight before.
  void (*assign)(const BoxRows& of, std::span<const BoxObject> objects, float* rows, float* weight);
  /// `outputs`: the rows of one image.
  std::vector<FoundBox> (*find)(const BoxRows& of, std::span<const float> outputs);
};

/// kCorrupt if there is no record of that name, or if `coding` does not fit it.
Result<const BoxCodingRecord*> find_box_coding(const engine::BoxCoding& coding);

BoxTarget box_target(const BoxRows& of, const BoxObjects& objects, std::span<const float> sample_weight);

/// The number that a detector's loss of these targets is divided by: the weight of the rows with an object, at least 1, or that
/// of the images; 0 if no row counts. For a mean that does not depend on how samples are batched, multiply each batch's loss by
/// its weight, and divide the sum by the weights of those batches that have an object.
struct BoxWeight {
  double weight = 0;
  bool has_object = false;  // or the loss is a mean over images
};
BoxWeight box_weight(const engine::BoxCoding& coding, const engine::Tensor& rows,
                     const engine::Tensor& weight);

/// The boxes of one image, sorted from the highest score, equal ones by row and class. They end at the image's sides. Rows with
/// numbers that are not finite have no box. For a grid, scores are above 0.05; of the 1000 highest, boxes that overlap a better
/// one of their class by more than 0.6 are left out, and at most 100 are returned. Throws kMisuse if `outputs` have another size.
std::vector<FoundBox> find_boxes(const BoxRows& of, std::span<const float> outputs);

/// The numbers of the boxes that remain, sorted from the highest score: a better remaining one of their class overlaps them by
/// `most` at most (intersection over union in f32). Same results as torchvision's batched_nms when that works class by class.
std::vector<size_t> suppress_overlaps(std::span<const FoundBox> boxes, double most);

// For the code of the records.

void sort_by_score(std::vector<FoundBox>& boxes);
/// Whether an object can be learned.
bool is_learned(const BoxObject& object, int64_t classes);

}  // namespace dlpipe::run
