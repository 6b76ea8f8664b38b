// box_blur(size): the mean of a square around every pixel, the picture mirrored at its border (Albumentations' Blur,
// OpenCV's blur).
#include "dlpipe/augment/blur_weights.h"
#include "dlpipe/augment/kinds.h"

namespace dlpipe::augment {

namespace {

class BoxBlur : public SquareOp {
 public:
  using SquareOp::SquareOp;
  Status apply(const OpDraw& draw, const ConstImageView& in, const ImageView& out,
               ChainScratch& scratch) const override {
    blur(draw, blur_weights(std::vector<double>(size_t(2 * reach(draw) + 1), 1.0)), in, out, scratch);
    return {};
  }
};

}  // namespace

extern const OpRecord box_blur_augmentation = {
    .name = "box_blur",
    .help = "the mean of a square around every pixel (Blur)",
    .version = 2,
    .params = {{.name = "size",
                .kind = "ints",
                .default_value = "3..7",
                .help = "width of the square; an even number becomes the next odd one",
                .low = 1,
                .high = 99,
                .unit = "pixels"},
               probability()},
    .build = build_op<BoxBlur>};

}  // namespace dlpipe::augment
