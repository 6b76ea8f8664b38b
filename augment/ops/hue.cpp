// hue(shift): the hue of every pixel turned by a share of the whole circle, as torchvision's adjust_hue does for PIL
// images: Pillow's 8-bit HSV, h plus 255 shift modulo 256, and back.
#include <cmath>

#include "dlpipe/augment/hue_kernels.h"
#include "dlpipe/augment/kinds.h"

namespace dlpipe::augment {

namespace {

class Hue : public ColorOp {
 public:
  explicit Hue(OpArguments& arguments) : shift_(arguments.drawn("shift")) {}
  Status draw_color(RandomStream& rng, OpDraw& draw) const override {
    draw.values[0] = static_cast<float>(std::trunc(shift_.draw(rng) * 255));
    return {};
  }
  Status apply(const OpDraw& draw, const ConstImageView& in, const ImageView& out,
               ChainScratch&) const override {
    turn_hue(static_cast<int>(draw.values[0]) & 255, in, out);
    return {};
  }

 private:
  Drawn shift_;
};

}  // namespace

extern const OpRecord hue_augmentation = {.name = "hue",
                                          .help = "the hue of every pixel turned; grey pictures stay",
                                          .version = 1,
                                          .params = {{.name = "shift",
                                                      .kind = "spread",
                                                      .default_value = "0.1",
                                                      .help = "share of the whole circle; 0 changes nothing",
                                                      .low = -0.5,
                                                      .high = 0.5,
                                                      .unit = "turns"},
                                                     probability()},
                                          .build = build_op<Hue>};

}  // namespace dlpipe::augment
