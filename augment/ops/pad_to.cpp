// pad_to(size, mode, fill): widened to at least a size, the picture in the middle (Albumentations' PadIfNeeded; with
// resize(SIZE, side=longer) before it a letterbox).
#include "dlpipe/augment/border_op.h"

namespace dlpipe::augment {

namespace {

class PadTo : public BorderOp {
 public:
  explicit PadTo(OpArguments& arguments) : BorderOp(arguments), size_(arguments.size("size")) {}
  ImageSize output(const ImageSize& in) const override {
    if (in.width <= 0 || in.height <= 0) return in;
    return {std::max(in.width, size_.width), std::max(in.height, size_.height), in.channels};
  }
  Status plan(const ImageSize& in, RandomStream&, OpDraw& draw) const override {
    draw.active = draw.out != in;
    const int left = (draw.out.width - in.width) / 2, top = (draw.out.height - in.height) / 2;
    draw.values = {static_cast<float>(left), static_cast<float>(top)};
    return check(in);
  }

 private:
  ImageSize size_;
};

}  // namespace

extern const OpRecord pad_to_augmentation = {
    .name = "pad_to",
    .help = "widened to at least a size, the picture in the middle (PadIfNeeded)",
    .version = 1,
    .params = {{"size", "size", "", "height x width, or one number for both"},
               border_parameter(),
               fill_parameter(),
               probability()},
    .build = build_op<PadTo>,
    .traits = {.can_mirror = true}};

}  // namespace dlpipe::augment
