// hflip(p): left and right swapped. The chain has the op before it write mirrored, or mirrors a copy.
#include "dlpipe/augment/copy.h"
#include "dlpipe/augment/op.h"

namespace dlpipe::augment {

namespace {

class HorizontalFlip : public Op {
 public:
  explicit HorizontalFlip(OpArguments&) {}
  Status apply(const OpDraw&, const ConstImageView& in, const ImageView& out, ChainScratch&) const override {
    copy_image(in, out, true);
    return {};
  }
  Movement movement(const OpDraw& draw) const override { return Movement::scaled(-1, draw.in.width, 1, 0); }
};

}  // namespace

extern const OpRecord hflip_augmentation = {.name = "hflip",
                                            .help = "left and right swapped (RandomHorizontalFlip)",
                                            .version = 1,
                                            .params = {probability("0.5")},
                                            .build = build_op<HorizontalFlip>,
                                            .traits = {.is_mirror = true}};

}  // namespace dlpipe::augment
