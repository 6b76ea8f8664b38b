// unsharp(sigma, amount): the difference from a gaussian blur added, amount times.
#include <cmath>

#include "dlpipe/augment/blur_weights.h"
#include "dlpipe/augment/kinds.h"

namespace dlpipe::augment {

namespace {

class Unsharp : public NeighbourhoodOp {
 public:
  explicit Unsharp(OpArguments& arguments)
      : sigma_(arguments.drawn("sigma")), amount_(arguments.drawn("amount")) {}
  Status plan(const ImageSize&, RandomStream& rng, OpDraw& draw) const override {
    draw.values = {static_cast<float>(sigma_.draw(rng)), static_cast<float>(amount_.draw(rng))};
    return {};
  }
  int reach(const OpDraw& draw) const override { return static_cast<int>(std::ceil(3 * draw.values[0])); }
  Status apply(const OpDraw& draw, const ConstImageView& in, const ImageView& out,
               ChainScratch& scratch) const override {
    blur(draw, gaussian_weights(static_cast<double>(draw.values[0]), reach(draw)), in, out, scratch);
    const int x = draw.window.x - draw.region.x, y = draw.window.y - draw.region.y;
    const ConstImageView middle(in.row(y) + ptrdiff_t{x} * in.channels, out.width, out.height, out.channels,
                                in.stride);
    blend_images(out, middle, 1 + draw.values[1], out);
    return {};
  }

 private:
  Drawn sigma_;
  Drawn amount_;
};

}  // namespace

extern const OpRecord unsharp_augmentation = {.name = "unsharp",
                                              .help = "sharpened by its difference from a blur",
                                              .version = 1,
                                              .params = {{.name = "sigma",
                                                          .kind = "drawn",
                                                          .default_value = "1",
                                                          .help = "standard deviation of the blur",
                                                          .low = 0.01,
                                                          .high = 16,
                                                          .unit = "pixels"},
                                                         {.name = "amount",
                                                          .kind = "drawn",
                                                          .default_value = "0.2..0.5",
                                                          .help = "how much of the difference is added",
                                                          .low = 0,
                                                          .high = 10},
                                                         probability()},
                                              .build = build_op<Unsharp>};

}  // namespace dlpipe::augment
