// translate(x, y, unit): moved by a share of the width and height, or by pixels, cut off to whole pixels (AutoAugment's TranslateX and
// TranslateY; RandomAffine, which rounds, is affine).
#include <cmath>

#include "dlpipe/augment/warp.h"

namespace dlpipe::augment {

namespace {

class Translate : public ProjectiveOp {
 public:
  explicit Translate(OpArguments& arguments)
      : ProjectiveOp(arguments),
        x_(arguments.drawn("x")),
        y_(arguments.drawn("y")),
        share_(arguments.text("unit") == "share") {
    if (share_ && (std::min(x_.low, y_.low) < -1 || std::max(x_.high, y_.high) > 1))
      arguments.refuse(
          {ErrorCode::kMisuse, "x and y are shares and must lie in -1..1; write unit=pixels to give pixels"});
  }

 private:
  Status draw_warp(const ImageSize& in, RandomStream& rng, OpDraw& draw) const override {
    draw.values = {static_cast<float>(std::trunc(x_.draw(rng) * (share_ ? in.width : 1))),
                   static_cast<float>(std::trunc(y_.draw(rng) * (share_ ? in.height : 1)))};
    return {};
  }
  ProjectiveMap map(const OpDraw& draw) const override {
    return {1, 0, -static_cast<double>(draw.values[0]), 0, 1, -static_cast<double>(draw.values[1]), 0, 0};
  }

  Drawn x_;
  Drawn y_;
  bool share_;  // of the width and height; else pixels
};

}  // namespace

extern const OpRecord translate_augmentation = {.name = "translate",
                                                .help = "moved by whole pixels",
                                                .version = 1,
                                                .params = {{.name = "x",
                                                            .kind = "spread",
                                                            .default_value = "0",
                                                            .help = "how far; positive is to the right",
                                                            .low = -65536,
                                                            .high = 65536},
                                                           {.name = "y",
                                                            .kind = "spread",
                                                            .default_value = "0",
                                                            .help = "how far; positive is down",
                                                            .low = -65536,
                                                            .high = 65536},
                                                           {.name = "unit",
                                                            .kind = "string",
                                                            .default_value = "share",
                                                            .help = "what x and y are",
                                                            .choices = {"share", "pixels"}},
                                                           interpolation_parameter(),
                                                           fill_parameter(),
                                                           probability()},
                                                .build = build_op<Translate>};

}  // namespace dlpipe::augment
