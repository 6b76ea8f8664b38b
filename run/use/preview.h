// `dlpipe preview`: the effect of augmentation chains, as one image with names, boxes, key points and masks.
//
// Shows what augmentation chains do: samples of a dataset, each next to several results of a chain, or of two chains below each
// other, in one PNG. Random draws are those of a run with the same seed that reads samples in file order.
//
// One thread; memory for one image and the grid.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "augment/copy.h"
#include "augment/moving.h"
#include "dlpipe/augment.h"
#include "dlpipe/augment_op.h"
#include "dlpipe/dataset.h"
#include "dlpipe/error.h"
#include "dlpipe/image.h"

namespace dlpipe::run {

// Names in `dlpipe preview`'s grid, in ASCII letters of 5 x 8 pixels. Pure.

/// Height of a line of text in pixels.
inline constexpr int kTextHeight = 9;

/// A class's name in ASCII: Latin letters without accents; a name with characters of other scripts is replaced by its number,
/// such as "7" for class 7.
std::string drawable_name(std::string_view name, size_t number);

/// Writes `text`, which is ASCII, from (x, y), its upper left corner, on a background of `color`, in black or white for
/// contrast; parts outside of `image` are clipped.
void draw_text(const ImageView& image, int x, int y, std::string_view text, const augment::Pixel& color);

/// Draws the frame of a box, one pixel wide, inside `image`.
void draw_frame(const ImageView& image, int left, int top, int right, int bottom,
                const augment::Pixel& color);

// What `dlpipe preview` draws over an image: its boxes, key points and masks, moved by a chain (augment/moving.h).
//
// A SampleMarks belongs to one thread. Cost: one pass over the masks' pixels.

struct MarkKinds {
  bool boxes = false;
  bool points = false;
  bool masks = false;
};

/// A class's colour, the same in boxes, masks and names. Adjacent classes are easy to distinguish.
augment::Pixel color_of_class(size_t number);

class SampleMarks {
 public:
  /// kMisuse if the dataset has no images, or names the kind of field that it lacks.
  static Status check(const data::Dataset& dataset, const MarkKinds& kinds);
  /// "--boxes --points": the options for the kinds that the dataset has but `kinds` leaves out; "" if there are none.
  static std::string options_for_others(const data::Dataset& dataset, const MarkKinds& kinds);
  /// The marks of one record in the whole image of this size.
  static Result<SampleMarks> read(const data::Dataset& dataset, std::span<const std::byte> record,
                                  const MarkKinds& kinds, int width, int height);

  /// The marks moved by the plan, without dropped boxes and the points that belong to them. `images` has the marks of the
  /// sample, and of the others if the plan joins several images.
  static SampleMarks moved(std::span<const SampleMarks> images, const augment::ChainPlan& plan);
  /// Blends the masks' colours over `image`, which has the size that the marks are for. Class 0 and 255 ("unknown") stay
  /// transparent.
  void tint(const ImageView& image) const;
  /// Draws boxes and points over `shown`: the image of width x height at another size. Boxes with a class have its colour, and
  /// its name if `classes` has one; others have colours by index.
  void draw(const ImageView& shown, std::span<const std::string> classes) const;

 private:
  struct Rows {
    std::vector<float> numbers;
    size_t points_per_row = 1;
    int of = -1;                        // of points: index of the boxes that they belong to
    std::vector<int64_t> classes = {};  // of each box; empty if the dataset does not have them
  };
  struct Mask {
    std::vector<uint8_t> classes;  // [height, width]; empty: the sample has none
  };

  void move_into(const augment::Moving& moving, SampleMarks& all) const;

  bool shows_boxes_ = false;  // otherwise boxes are only needed for their points
  int width_ = 0;
  int height_ = 0;
  std::vector<Rows> boxes_;
  std::vector<Rows> points_;
  std::vector<Mask> masks_;
};

// The grid itself.

struct PreviewOptions {
  std::vector<std::string> chains;  // expressions: one, or two to compare
  std::string out;                  // PNG, written whole or not at all
  int64_t samples = 5;              // spread over the dataset
  int64_t times = 8;                // results per sample and chain
  int64_t cell = 160;               // pixels of the square that an image is fitted into
  uint64_t seed = 0;
  int64_t channels = 3;
  int64_t max_pixels = 178'956'970;  // samples with larger images can't be shown
  MarkKinds marks;                   // drawn over originals and results
};

/// One image of the grid.
struct PreviewCell {
  int64_t sample = 0;
  int chain = 0;
  int64_t time = 0;
  std::string drawn;  // Chain::describe
};

struct PreviewReport {
  int width = 0;
  int height = 0;
  std::vector<PreviewCell> cells;     // in reading order, originals left out
  std::map<int64_t, Status> damaged;  // samples that can't be shown; their cells stay empty
};

/// Errors name the chain, the sample or the file. A corrupt sample is an error only if no other can be shown.
Result<PreviewReport> preview(const data::Dataset& dataset, const PreviewOptions& options,
                              const augment::OpRegistry& registry = augment::OpRegistry::builtin());

}  // namespace dlpipe::run
