// What belongs to a picture moves as a chain moves its pixels: boxes, key points, masks. A Moving is made of the plan that the
// picture goes by.
//
// Rules, op by op in the chain's order:
// - A box becomes the bounding box of its moved corners (of its moved outline, where lines don't stay lines) and is clipped to
//   the picture. A box of which nothing is left is dropped, and so is one that drop_boxes judges so. Boxes at rest that reach
//   out of the picture are clipped to it first.
// - A point that leaves the picture keeps its row and is no longer visible. Points keep their order: who mirrors a picture and
//   knows left eyes from right ones renames them.
// - A pixel of a mask is the one nearest to where its centre comes from; what comes from outside of the picture is `fill`.
//   Frames that mirror or repeat the border do so in the mask; boxes and points are not repeated there.
// - Where objects of another picture are pasted (paste.h), boxes below lose the sides that are covered, or are dropped, and
//   covered points are no longer visible. Of the other picture's boxes those of the pasted objects stay, and of its points
//   those on their pixels are visible. Its boxes are the rows that the plan was made with.
//
// A Moving belongs to one thread and must not outlive the plan and its chain. Cost: some arithmetic per corner and op; a mask
// takes that for each of its rows and columns where crops, resizes, flips and quarter turns move it, else for each pixel.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "dlpipe/augment/chain.h"
#include "dlpipe/augment/movement.h"
#include "dlpipe/base/image.h"

namespace dlpipe::augment {

class Moving {
 public:
  explicit Moving(const ChainPlan& plan);
  /// Of one picture of a joined plan (join.h), to where it stands in the result.
  Moving(const ChainPlan& plan, size_t picture);

  /// Rows of x_min, y_min, x_max, y_max; `kept` gets 1 or 0 for each. Those that are dropped hold anything.
  void boxes(std::span<float> rows, std::vector<uint8_t>& kept) const;
  /// Row `i` of these; nothing: it is dropped.
  std::optional<MovedBox> box(std::span<const float, 4> row, size_t i) const;
  /// Rows of x, y, visible.
  void points(std::span<float> rows) const;
  /// Of a mask of the whole source picture, one channel; `out` has the plan's size.
  void mask(const ConstImageView& source, const ImageView& out, uint8_t fill) const;
  /// The same, but leaves alone what comes from outside of the picture.
  void paint_mask(const ConstImageView& source, const ImageView& out) const {
    paint_mask(source, out, reach(out.width, out.height));
  }
  /// Of a part of `out` alone.
  void paint_mask(const ConstImageView& source, const ImageView& out, const Region& part) const;
  /// The slow twin of paint_mask, for any movement: what paint_mask does where it can't go by rows and columns.
  void paint_mask_by_pixels(const ConstImageView& source, const ImageView& out, const Region& part) const;

 private:
  struct Step {
    Movement movement;
    Region in;  // what is seen of the input, and of the output
    Region out;
    const BoxJudge* judge = nullptr;  // null: it drops no box
    const OpDraw* draw = nullptr;
    const Overlay* overlay = nullptr;  // where objects are pasted; null: they aren't
    bool is_over = false;              // the picture is what is pasted, else it is below
  };

  void add(const ChainPlan& plan);
  /// Whether each row and column of the output comes from one row or column of the source, nothing else deciding.
  bool keeps_axes() const;
  /// Where keeps_axes(): the source's column from which each column of `part` comes, and the row from which each row comes; -1:
  /// from outside. True: columns come from the source's rows, and rows from its columns.
  bool trace_axes(const Region& part, std::vector<int>& columns, std::vector<int>& rows) const;

  /// The part of an output of this size outside of which nothing of the picture is seen.
  Region reach(int width, int height) const;

  std::vector<Step> steps_;  // those that move or drop something
  ImageSize source_;
  size_t joined_steps_ = 0;  // steps_ to where the picture has joined others; 0: there are none
  /// Where objects are pasted: the boxes as they leave these, in the order of the rows.
  const std::vector<std::optional<MovedBox>>* placed_ = nullptr;
};

}  // namespace dlpipe::augment
