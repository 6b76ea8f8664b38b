// rotate(angle): turned about its middle, the size staying (PIL.Image.rotate, torchvision's RandomRotation).
#include "dlpipe/augment/warp.h"

namespace dlpipe::augment {

namespace {

class Rotate : public ProjectiveOp {
 public:
  explicit Rotate(OpArguments& arguments) : ProjectiveOp(arguments), angle_(arguments.drawn("angle")) {}

 private:
  Status draw_warp(const ImageSize&, RandomStream& rng, OpDraw& draw) const override {
    draw.values[0] = static_cast<float>(angle_.draw(rng));
    return {};
  }
  ProjectiveMap map(const OpDraw& draw) const override {
    return affine_map({.angle = -static_cast<double>(draw.values[0])}, draw.in.width * 0.5,
                      draw.in.height * 0.5);
  }

  Drawn angle_;
};

}  // namespace

extern const OpRecord rotate_augmentation = {
    .name = "rotate",
    .help = "turned about its middle; the size stays (RandomRotation)",
    .version = 1,
    .params = {{.name = "angle",
                .kind = "spread",
                .default_value = "",
                .help = "positive is counterclockwise",
                .low = -360,
                .high = 360,
                .unit = "degrees"},
               interpolation_parameter(),
               fill_parameter(),
               probability()},
    .build = build_op<Rotate>};

}  // namespace dlpipe::augment
