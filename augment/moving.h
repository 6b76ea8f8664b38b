// Moves boxes, key points and masks as a chain moves an image's pixels. A Moving is made from the image's plan.
//
// Rules, op by op in the chain's order:
// - A box becomes the bounding box of its moved corners (of its moved outline, if lines do not stay lines) and is clipped to
//   the image. A box that becomes empty is dropped, and so is one that drop_boxes drops. Stored boxes that extend outside the
//   image are clipped to it first.
// - A point that leaves the image keeps its row and is no longer visible. Points keep their order: a caller that mirrors images
//   and distinguishes left and right eyes renames them.
// - A pixel of a mask is the one nearest to the source of its centre; pixels from outside of the image are `fill`. Of two that are
//   equally near, it is the right or lower one in the image that the resize reads, as in PyTorch's nearest-exact. Padding that
//   mirrors or repeats the border does so in the mask; boxes and points are not repeated.
// - Where objects of another image are pasted (chain_link.h), boxes below lose the sides that are covered, or are dropped, and
//   covered points are no longer visible. The other image keeps the boxes of the pasted objects, and its points are visible if
//   they are on the objects' pixels. Its boxes are the rows that the plan was made with.
//
// A Moving belongs to one thread and must not outlive the plan and its chain. Cost: some arithmetic per corner and op; for a
// mask, per row and column if only crops, resizes, flips and quarter turns move it, else per pixel.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "dlpipe/augment.h"
#include "dlpipe/augment_op.h"
#include "dlpipe/image.h"

namespace dlpipe::augment {

class Moving {
 public:
  explicit Moving(const ChainPlan& plan);
  /// For one image of a joined plan, to its place in the result.
  Moving(const ChainPlan& plan, size_t image);

  /// Rows of x_min, y_min, x_max, y_max; `kept` gets 1 or 0 for each. Values of dropped rows are unspecified.
  void boxes(std::span<float> rows, std::vector<uint8_t>& kept) const;
  /// Moves row `i` of these; nullopt: it is dropped.
  std::optional<MovedBox> box(std::span<const float, 4> row, size_t i) const;
  /// Rows of x, y, visible.
  void points(std::span<float> rows) const;
  /// Moves a mask of the whole source image, one channel; `out` has the plan's size.
  void mask(const ConstImageView& source, const ImageView& out, uint8_t fill) const;
  /// The same, but leaves pixels from outside of the image unchanged.
  void paint_mask(const ConstImageView& source, const ImageView& out) const {
    paint_mask(source, out, reach(out.width, out.height));
  }
  /// Only a part of `out`.
  void paint_mask(const ConstImageView& source, const ImageView& out, const Region& part) const;
  /// The slow version of paint_mask, for any movement: paint_mask uses it if it can't work by rows and columns.
  void paint_mask_by_pixels(const ConstImageView& source, const ImageView& out, const Region& part) const;

 private:
  struct Step {
    Movement movement;
    Region in;  // the visible part of the input, and of the output
    Region out;
    bool is_resize = false;
    const BoxJudge* judge = nullptr;  // null: it drops no box
    const OpDraw* draw = nullptr;
    const Overlay* overlay = nullptr;  // if objects are pasted; null: they are not
    bool is_over = false;              // the image is the pasted one, else it is below
  };

  void add(const ChainPlan& plan);
  /// Whether each row and column of the output comes from exactly one row or column of the source.
  bool keeps_axes() const;
  /// If keeps_axes(): the source column of each column of `part`, and the source row of each row; -1: outside. True: columns
  /// come from the source's rows, and rows from its columns.
  bool trace_axes(const Region& part, std::vector<int>& columns, std::vector<int>& rows) const;

  /// The part of an output of this size that contains all visible pixels of the image.
  Region reach(int width, int height) const;

  std::vector<Step> steps_;  // those that move or drop something
  ImageSize source_;
  size_t joined_steps_ = 0;  // steps_ to where the image has joined others; 0: there are none
  /// If objects are pasted: the remaining boxes, in the order of the rows.
  const std::vector<std::optional<MovedBox>>* placed_ = nullptr;
};

}  // namespace dlpipe::augment
