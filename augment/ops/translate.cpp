// translate(x, y): moved by a share of the width and height, cut off to whole pixels (AutoAugment's TranslateX and
// TranslateY; RandomAffine, which rounds, is affine).
#include <cmath>

#include "dlpipe/augment/warp.h"

namespace dlpipe::augment {

namespace {

class Translate : public ProjectiveOp {
 public:
  explicit Translate(OpArguments& arguments)
      : ProjectiveOp(arguments), x_(arguments.drawn("x")), y_(arguments.drawn("y")) {}

 private:
  Status draw_warp(const ImageSize& in, RandomStream& rng, OpDraw& draw) const override {
    draw.values = {static_cast<float>(std::trunc(x_.draw(rng) * in.width)),
                   static_cast<float>(std::trunc(y_.draw(rng) * in.height))};
    return {};
  }
  ProjectiveMap map(const OpDraw& draw) const override {
    return {1, 0, -static_cast<double>(draw.values[0]), 0, 1, -static_cast<double>(draw.values[1]), 0, 0};
  }

  Drawn x_;
  Drawn y_;
};

}  // namespace

extern const OpRecord translate_augmentation = {
    .name = "translate",
    .help = "moved by whole pixels",
    .version = 1,
    .params = {{.name = "x",
                .kind = "spread",
                .default_value = "0",
                .help = "share of the width; positive is to the right",
                .low = -1,
                .high = 1},
               {.name = "y",
                .kind = "spread",
                .default_value = "0",
                .help = "share of the height; positive is down",
                .low = -1,
                .high = 1},
               interpolation_parameter(),
               fill_parameter(),
               probability()},
    .build = build_op<Translate>};

}  // namespace dlpipe::augment
