// Objects of a batch's images, and how the rows of a detector's output mean boxes: what each row is to answer for given objects, and the
// boxes that its rows find. A record for each coding (dlpipe/models.h): the cells of one grid (box_grid.cpp), and the anchors of several
// levels of torchvision's detectors (box_anchors.cpp). run/config/loss.cpp has their losses.
//
// Boxes are x_min, y_min, x_max, y_max in pixels of the image as the chain made it. Pure; one thread.
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
  bool is_crowd = false;  // a group of objects: what is found in it is neither right nor wrong
};

/// Of some samples, one behind the other: sample i has [offsets[i], offsets[i + 1]).
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

/// Rows of a detector of `classes` classes over images of one size.
struct BoxRows {
  const engine::BoxCoding& coding;
  int64_t height = 0, width = 0;  // of an image, in pixels
  int64_t classes = 0;
};

/// What each row is to answer: f32 [samples * rows, classes + 4 + BoxCodingRecord::more], 1 for the class of its object, then four numbers
/// that code its box. A row has the form of the model's, so that a loss needs no table of classes on a device. Weights f32 [samples * rows]:
/// 0 where a row does not count, as those without an object in crowds. An object is not learned if its box is empty, or its label is not a class.
struct BoxTarget {
  engine::Tensor rows, weight;
};

struct BoxCodingRecord {
  const char* name;
  const char* loss;          // by default
  int64_t others;            // BoxCoding::others
  int64_t more;              // numbers of a target row behind the sides of its box
  bool is_by_image = false;  // a batch's loss is the mean over its images, else over its rows with an object
  /// Of an image.
  int64_t (*rows)(const BoxRows& of);
  /// Writes the rows and weights of one image, which are zeros and the sample's weight.
  void (*assign)(const BoxRows& of, std::span<const BoxObject> objects, float* rows, float* weight);
  /// `outputs`: the rows of one image.
  std::vector<FoundBox> (*find)(const BoxRows& of, std::span<const float> outputs);
};

/// kCorrupt where there is none of that name, or `coding` does not fit it.
Result<const BoxCodingRecord*> find_box_coding(const engine::BoxCoding& coding);

BoxTarget box_target(const BoxRows& of, const BoxObjects& objects, std::span<const float> sample_weight);

/// What a detector's loss of these targets is divided by: the weight of the rows with an object, 1 at least, or of the images; 0 where no row
/// counts. A mean over batches that does not depend on how they were cut multiplies each loss by its weight and divides the sum by the
/// weights of those that have an object.
struct BoxWeight {
  double weight = 0;
  bool has_object = false;  // or the loss is by image
};
BoxWeight box_weight(const engine::BoxCoding& coding, const engine::Tensor& rows,
                     const engine::Tensor& weight);

/// The boxes of one image, the highest score first, of equal ones the first row's and class's first. They end at the image's sides. Numbers
/// that are not finite give no box. Of a grid scores are above 0.05; of the 1000 highest, boxes that overlap a better one of their class by
/// more than 0.6 are left out, and 100 at most are returned. Throws kMisuse where `outputs` are of another size.
std::vector<FoundBox> find_boxes(const BoxRows& of, std::span<const float> outputs);

/// Which of `boxes` remain, the highest score first: those that no better one of their class overlaps by more than `most` (intersection over
/// union in f32). torchvision's batched_nms, number for number, where it goes class by class.
std::vector<size_t> suppress_overlaps(std::span<const FoundBox> boxes, double most);

// For the records' own code.

void sort_by_score(std::vector<FoundBox>& boxes);
/// Whether an object can be learned.
bool is_learned(const BoxObject& object, int64_t classes);

}  // namespace dlpipe::run
