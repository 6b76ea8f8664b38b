// transpose(p): rows and columns swapped; a picture that isn't square changes its size.
#include "dlpipe/augment/oriented_op.h"

namespace dlpipe::augment {

namespace {

class Transpose : public OrientedOp {
 public:
  explicit Transpose(OpArguments&) {}
  ImageSize output(const ImageSize& in) const override { return {in.height, in.width, in.channels}; }
  Status plan(const ImageSize&, RandomStream&, OpDraw& draw) const override {
    set_orientation(5, draw);
    return {};
  }
};

}  // namespace

extern const OpRecord transpose_augmentation = {.name = "transpose",
                                                .help = "rows and columns swapped",
                                                .version = 1,
                                                .params = {probability("0.5")},
                                                .build = build_op<Transpose>};

}  // namespace dlpipe::augment
