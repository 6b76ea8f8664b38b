// pad(pixels, mode, fill): widened on every side (torchvision's Pad).
#include "dlpipe/augment/border_op.h"
#include "dlpipe/base/text.h"

namespace dlpipe::augment {

namespace {

class Pad : public BorderOp {
 public:
  explicit Pad(OpArguments& arguments) : BorderOp(arguments), sides_(arguments.numbers("pixels")) {
    if (sides_.size() == 1) sides_ = {sides_[0], sides_[0], sides_[0], sides_[0]};
    if (sides_.size() == 2) sides_ = {sides_[0], sides_[1], sides_[0], sides_[1]};
    for (const double side : sides_) {
      if (sides_.size() == 4 && side == static_cast<int>(side)) continue;
      arguments.refuse({ErrorCode::kMisuse,
                        "pixels must be one whole number, horizontal:vertical or left:top:right:bottom"});
    }
    sides_.resize(4);
  }
  ImageSize output(const ImageSize& in) const override {
    if (in.width <= 0 || in.height <= 0) return in;
    return {in.width + side(0) + side(2), in.height + side(1) + side(3), in.channels};
  }
  Status plan(const ImageSize& in, RandomStream&, OpDraw& draw) const override {
    draw.values = {static_cast<float>(side(0)), static_cast<float>(side(1))};
    return check(in);
  }

 private:
  int side(size_t i) const { return static_cast<int>(sides_[i]); }

  std::vector<double> sides_;  // left, top, right, bottom
};

}  // namespace

extern const OpRecord pad_augmentation = {
    .name = "pad",
    .help = "widened on every side (Pad)",
    .version = 1,
    .params = {{.name = "pixels",
                .kind = "list",
                .default_value = "",
                .help = "on every side, or horizontal:vertical, or left:top:right:bottom",
                .low = 0,
                .high = 4096,
                .unit = "pixels"},
               border_parameter(),
               fill_parameter(),
               probability()},
    .build = build_op<Pad>,
    .traits = {.can_mirror = true}};

}  // namespace dlpipe::augment
