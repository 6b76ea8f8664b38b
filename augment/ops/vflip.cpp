// vflip(p): top and bottom swapped.
#include "dlpipe/augment/oriented_op.h"

namespace dlpipe::augment {

namespace {

class VerticalFlip : public OrientedOp {
 public:
  explicit VerticalFlip(OpArguments&) {}
  Status plan(const ImageSize&, RandomStream&, OpDraw& draw) const override {
    set_orientation(4, draw);
    return {};
  }
};

}  // namespace

extern const OpRecord vflip_augmentation = {.name = "vflip",
                                            .help = "top and bottom swapped (RandomVerticalFlip)",
                                            .version = 1,
                                            .params = {probability("0.5")},
                                            .build = build_op<VerticalFlip>};

}  // namespace dlpipe::augment
