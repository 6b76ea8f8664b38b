// affine(angle, translate_x, translate_y, scale, shear_x, shear_y): torchvision's RandomAffine. Moves are whole pixels.
#include <cmath>

#include "dlpipe/augment/warp.h"

namespace dlpipe::augment {

namespace {

class Affine : public ProjectiveOp {
 public:
  explicit Affine(OpArguments& arguments)
      : ProjectiveOp(arguments), ranges_{arguments.drawn("angle"),       arguments.drawn("translate_x"),
                                         arguments.drawn("translate_y"), arguments.drawn("scale"),
                                         arguments.drawn("shear_x"),     arguments.drawn("shear_y")} {}

 private:
  Status draw_warp(const ImageSize& in, RandomStream& rng, OpDraw& draw) const override {
    for (size_t i = 0; i < ranges_.size(); ++i) draw.values[i] = static_cast<float>(ranges_[i].draw(rng));
    draw.values[1] = std::nearbyint(draw.values[1] * static_cast<float>(in.width));
    draw.values[2] = std::nearbyint(draw.values[2] * static_cast<float>(in.height));
    return {};
  }
  ProjectiveMap map(const OpDraw& draw) const override {
    const auto at = [&](size_t i) { return static_cast<double>(draw.values[i]); };
    return affine_map({at(0), at(1), at(2), at(3), at(4), at(5)}, draw.in.width * 0.5, draw.in.height * 0.5);
  }

  std::array<Drawn, 6> ranges_;
};

}  // namespace

extern const OpRecord affine_augmentation = {
    .name = "affine",
    .help = "turned, moved, scaled and sheared about its middle (RandomAffine)",
    .version = 1,
    .params = {{.name = "angle",
                .kind = "spread",
                .default_value = "0",
                .help = "positive is clockwise",
                .low = -360,
                .high = 360,
                .unit = "degrees"},
               {.name = "translate_x",
                .kind = "spread",
                .default_value = "0",
                .help = "share of the width",
                .low = -1,
                .high = 1},
               {.name = "translate_y",
                .kind = "spread",
                .default_value = "0",
                .help = "share of the height",
                .low = -1,
                .high = 1},
               {.name = "scale",
                .kind = "drawn",
                .default_value = "1",
                .help = "above 1 enlarges",
                .low = 0.01,
                .high = 100},
               lean_parameter("shear_x", "columns"),
               lean_parameter("shear_y", "rows"),
               interpolation_parameter(),
               fill_parameter(),
               probability()},
    .build = build_op<Affine>};

}  // namespace dlpipe::augment
