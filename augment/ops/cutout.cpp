// cutout(size, fill, p): a square set to one colour, its centre uniform over the image, cut off at the
// borders (DeVries and Taylor, "Improved Regularization of Convolutional Neural Networks with Cutout", 2017).
#include "dlpipe/augment/copy.h"
#include "dlpipe/augment/fill.h"
#include "dlpipe/augment/op.h"

namespace dlpipe::augment {

namespace {

class Cutout : public Op {
 public:
  explicit Cutout(OpArguments& arguments) : size_(arguments.size("size")), fill_(arguments, "fill") {}

  Status plan(const ImageSize& in, RandomStream& rng, OpDraw& draw) const override {
    DLPIPE_RETURN_IF_ERROR(fill_.check(in.channels));
    const int y = static_cast<int>(rng.below(static_cast<uint32_t>(in.height))) - size_.height / 2;
    const int x = static_cast<int>(rng.below(static_cast<uint32_t>(in.width))) - size_.width / 2;
    draw.values = {static_cast<float>(x), static_cast<float>(y)};
    return {};
  }

  Status apply(const OpDraw& draw, const ConstImageView& in, const ImageView& out,
               ChainScratch&) const override {
    const int x = static_cast<int>(draw.values[0]);
    copy_image(in, out, draw.mirror);
    const int left = draw.mirror ? out.width - x - size_.width : x;
    fill_region(out, {left, static_cast<int>(draw.values[1]), size_.width, size_.height}, fill_.pixel());
    return {};
  }

 private:
  ImageSize size_;
  Fill fill_;
};

}  // namespace

extern const OpRecord cutout_augmentation = {
    .name = "cutout",
    .help = "a square at a random place set to one colour",
    .version = 1,
    .params = {{"size", "size", "", "height x width of the patch, or one number for a square"},
               fill_parameter(),
               probability()},
    .build = build_op<Cutout>,
    .traits = {.can_mirror = true}};

}  // namespace dlpipe::augment
