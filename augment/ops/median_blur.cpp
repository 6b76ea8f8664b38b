// median_blur(size): the median of a square around every pixel, the border's pixels repeated (OpenCV's medianBlur).
#include "dlpipe/augment/kinds.h"

namespace dlpipe::augment {

namespace {

class MedianBlur : public SquareOp {
 public:
  using SquareOp::SquareOp;
  // Of larger squares a histogram, which moves along the row: Huang, Yang and Tang, "A fast two-dimensional median filtering
  // algorithm" (1979).
  Status apply(const OpDraw& draw, const ConstImageView& in, const ImageView& out,
               ChainScratch& scratch) const override {
    const int far = reach(draw);
    const int side = 2 * far + 1;
    const ConstImageView wide = surroundings(draw, in, Border::kReplicate, scratch);
    if (median_small(wide, side, out)) return {};
    for (int c = 0; c < out.channels; ++c) {
      for (int y = 0; y < out.height; ++y) {
        std::array<int, 256> seen{};
        int median = 0;
        int below = 0;  // values less than the median
        const auto add = [&](int x, int change) {
          for (int dy = 0; dy < side; ++dy) {
            const int value = wide.row(y + dy)[x * out.channels + c];
            seen[static_cast<size_t>(value)] += change;
            if (value < median) below += change;
          }
        };
        for (int x = 0; x < side - 1; ++x) add(x, 1);
        for (int x = 0; x < out.width; ++x) {
          add(x + side - 1, 1);
          const int half = side * side / 2;
          while (below > half) below -= seen[static_cast<size_t>(--median)];
          while (below + seen[static_cast<size_t>(median)] <= half)
            below += seen[static_cast<size_t>(median++)];
          out.row(y)[x * out.channels + c] = static_cast<uint8_t>(median);
          add(x, -1);
        }
      }
    }
    return {};
  }
};

}  // namespace

extern const OpRecord median_blur_augmentation = {
    .name = "median_blur",
    .help = "the median of a square around every pixel",
    .version = 2,
    .params = {{.name = "size",
                .kind = "ints",
                .default_value = "3..5",
                .help = "width of the square; an even number becomes the next odd one",
                .low = 1,
                .high = 31,
                .unit = "pixels"},
               probability()},
    .build = build_op<MedianBlur>};

}  // namespace dlpipe::augment
