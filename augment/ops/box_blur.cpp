// box_blur(size): the mean of a square around every pixel, the picture mirrored at its border (Albumentations' Blur,
// OpenCV's blur).
#include "dlpipe/augment/blur_weights.h"
#include "dlpipe/augment/kinds.h"

namespace dlpipe::augment {

namespace {

class BoxBlur : public NeighbourhoodOp {
 public:
  explicit BoxBlur(OpArguments& arguments) : size_(arguments.drawn("size")) {}
  Status plan(const ImageSize&, RandomStream& rng, OpDraw& draw) const override {
    draw.values[0] = static_cast<float>(size_.draw_int(rng) / 2);
    return {};
  }
  int reach(const OpDraw& draw) const override { return static_cast<int>(draw.values[0]); }
  Status apply(const OpDraw& draw, const ConstImageView& in, const ImageView& out,
               ChainScratch& scratch) const override {
    const int far = reach(draw);
    const std::vector<uint16_t> weights = blur_weights(std::vector<double>(size_t(2 * far + 1), 1.0));
    const ConstImageView wide = surroundings(draw, in, Border::kReflect, scratch);
    convolve(wide, weights, weights, out, scratch.rows);
    return {};
  }

 private:
  Drawn size_;
};

}  // namespace

extern const OpRecord box_blur_augmentation = {
    .name = "box_blur",
    .help = "the mean of a square around every pixel",
    .version = 1,
    .params = {{.name = "size",
                .kind = "ints",
                .default_value = "3..7",
                .help = "width of the square; of even numbers the next odd one",
                .low = 1,
                .high = 99,
                .unit = "pixels"},
               probability()},
    .build = build_op<BoxBlur>};

}  // namespace dlpipe::augment
