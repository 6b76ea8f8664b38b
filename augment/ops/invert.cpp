// invert: the negative (PIL.ImageOps.invert).
#include "dlpipe/augment/kinds.h"

namespace dlpipe::augment {

namespace {

class Invert : public PixelOp {
 public:
  explicit Invert(OpArguments&) {}
  Status apply(const OpDraw&, const ConstImageView& in, const ImageView& out, ChainScratch&) const override {
    fold_values(0xff, 0, in, out);
    return {};
  }
};

}  // namespace

extern const OpRecord invert_augmentation = {.name = "invert",
                                             .help = "the negative: every value v becomes 255 - v",
                                             .version = 1,
                                             .params = {probability()},
                                             .build = build_op<Invert>};

}  // namespace dlpipe::augment
