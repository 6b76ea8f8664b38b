// saturation(factor): every pixel's distance from its own grey times a factor (PIL.ImageEnhance.Color).
#include "dlpipe/augment/kinds.h"

namespace dlpipe::augment {

namespace {

class Saturation : public ColorOp {
 public:
  explicit Saturation(OpArguments& arguments) : factor_(arguments.drawn("factor")) {}
  Status draw_color(RandomStream& rng, OpDraw& draw) const override {
    draw.values[0] = static_cast<float>(factor_.draw(rng));
    return {};
  }
  Status apply(const OpDraw& draw, const ConstImageView& in, const ImageView& out,
               ChainScratch&) const override {
    blend_luma(in, draw.values[0], out);
    return {};
  }

 private:
  Drawn factor_;
};

}  // namespace

extern const OpRecord saturation_augmentation = {
    .name = "saturation",
    .help = "every pixel's distance from its own grey times a factor; grey pictures stay",
    .version = 1,
    .params = {factor_parameter("factor", "0.4", "0 is grey, 1 changes nothing"), probability()},
    .build = build_op<Saturation>};

}  // namespace dlpipe::augment
