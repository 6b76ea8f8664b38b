// shear(x, y, about): sheared by angles about its middle or its top left corner (torchvision's RandomAffine with shear alone).
#include "dlpipe/augment/warp.h"

namespace dlpipe::augment {

namespace {

class Shear : public ProjectiveOp {
 public:
  explicit Shear(OpArguments& arguments)
      : ProjectiveOp(arguments),
        x_(arguments.drawn("x")),
        y_(arguments.drawn("y")),
        middle_(arguments.text("about") == "middle") {}

 private:
  Status draw_warp(const ImageSize&, RandomStream& rng, OpDraw& draw) const override {
    draw.values = {static_cast<float>(x_.draw(rng)), static_cast<float>(y_.draw(rng))};
    return {};
  }
  ProjectiveMap map(const OpDraw& draw) const override {
    const auto x = static_cast<double>(draw.values[0]);
    const auto y = static_cast<double>(draw.values[1]);
    const double middle = middle_ ? 0.5 : 0;
    return affine_map({.shear_x = x, .shear_y = y}, draw.in.width * middle, draw.in.height * middle);
  }

  Drawn x_;
  Drawn y_;
  bool middle_;  // else the top left corner stays
};

}  // namespace

extern const OpRecord shear_augmentation = {.name = "shear",
                                            .help = "sheared about its middle",
                                            .version = 1,
                                            .params = {lean_parameter("x", "columns"),
                                                       lean_parameter("y", "rows"),
                                                       {.name = "about",
                                                        .kind = "string",
                                                        .default_value = "middle",
                                                        .help = "what stays",
                                                        .choices = {"middle", "corner"}},
                                                       interpolation_parameter(),
                                                       fill_parameter(),
                                                       probability()},
                                            .build = build_op<Shear>};

}  // namespace dlpipe::augment
