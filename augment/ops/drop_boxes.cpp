// drop_boxes(share, side, area): boxes of which too little is left in the picture at this place of the chain, or that are too
// small here, are dropped (Albumentations' min_visibility and min_area; torchvision's SanitizeBoundingBoxes). No pixel changes.
#include <algorithm>

#include "dlpipe/augment/kinds.h"

namespace dlpipe::augment {

namespace {

class DropBoxes : public CopyingOp<Op>, public BoxJudge {
 public:
  explicit DropBoxes(OpArguments& arguments)
      : share_(arguments.number("share")), side_(arguments.number("side")), area_(arguments.number("area")) {}
  Status plan(const ImageSize&, RandomStream&, OpDraw& draw) const override {
    draw.crop_only = true;
    return {};
  }
  bool keeps(const OpDraw&, const MovedBox& box) const override {
    const double side = std::min(box.right - box.left, box.bottom - box.top);
    return box.share >= share_ && side >= side_ && box.area() >= area_;
  }

 private:
  double share_;
  double side_;
  double area_;
};

}  // namespace

extern const OpRecord drop_boxes_augmentation = {
    .name = "drop_boxes",
    .help = "boxes that were cut off, or are small, are dropped; pixels stay (SanitizeBoundingBoxes)",
    .version = 1,
    .params = {{"share", "float", "0", "share of a box's area, as moved, that must be in the picture", 0, 1},
               {.name = "side",
                .kind = "float",
                .default_value = "0",
                .help = "least width and height of a box",
                .low = 0,
                .high = 65536,
                .unit = "pixels"},
               {.name = "area",
                .kind = "float",
                .default_value = "0",
                .help = "least area of a box",
                .low = 0,
                .high = 4e9,
                .unit = "pixels"}},
    .build = build_op<DropBoxes>};

}  // namespace dlpipe::augment
