// What `dlpipe preview` draws over a picture: its boxes, key points and masks, where a chain moves them to (augment/moving.h).
//
// A SampleMarks belongs to one thread. Cost: one pass over the masks' pixels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "dlpipe/augment/chain.h"
#include "dlpipe/augment/copy.h"
#include "dlpipe/augment/moving.h"
#include "dlpipe/base/error.h"
#include "dlpipe/base/image.h"
#include "dlpipe/io/data/dataset.h"

namespace dlpipe::run {

struct MarkKinds {
  bool boxes = false;
  bool points = false;
  bool masks = false;
};

/// A class's colour, the same in boxes, masks and names. Neighbours are easily told apart.
augment::Pixel color_of_class(size_t number);

class SampleMarks {
 public:
  /// kMisuse where the dataset has no pictures, or no field of such a kind, which is named.
  static Status check(const data::Dataset& dataset, const MarkKinds& kinds);
  /// "--boxes --points": the options for the kinds that the dataset has and `kinds` leaves out; "" where there is none.
  static std::string options_for_others(const data::Dataset& dataset, const MarkKinds& kinds);
  /// The marks of one record, as they lie in the whole picture of this size.
  static Result<SampleMarks> read(const data::Dataset& dataset, std::span<const std::byte> record,
                                  const MarkKinds& kinds, int width, int height);

  /// Where the plan moves them to; dropped boxes are left out, and so are the points that belong to them. `pictures` has the
  /// marks of the sample, and of the others where the plan joins several pictures.
  static SampleMarks moved(std::span<const SampleMarks> pictures, const augment::ChainPlan& plan);
  /// Blends the masks' colours over `picture`, which has the size that the marks are for. Class 0 and 255, which stands for
  /// "nothing known", stay clear.
  void tint(const ImageView& picture) const;
  /// Draws boxes and points over `shown`: the picture of width x height at another size. Boxes with a class have its colour, and
  /// its name where `classes` has one; others have colours by their places.
  void draw(const ImageView& shown, std::span<const std::string> classes) const;

 private:
  struct Rows {
    std::vector<float> numbers;
    size_t points_per_row = 1;
    int of = -1;                        // of points: index of the boxes that they belong to
    std::vector<int64_t> classes = {};  // of boxes: of each; empty where the dataset doesn't say
  };
  struct Mask {
    std::vector<uint8_t> classes;  // [height, width]; empty: the sample has none
  };

  void move_into(const augment::Moving& moving, SampleMarks& all) const;

  bool shows_boxes_ = false;  // else they are there for their points' sake
  int width_ = 0;
  int height_ = 0;
  std::vector<Rows> boxes_;
  std::vector<Rows> points_;
  std::vector<Mask> masks_;
};

}  // namespace dlpipe::run
