// emboss(alpha, strength): Albumentations' Emboss: a filter of 3x3 that lights slopes from one side, mixed with the picture by
// alpha. Weights have 10 bits after the point, so results differ from floats by at most 1.
#include <cmath>

#include "dlpipe/augment/kinds.h"

namespace dlpipe::augment {

namespace {

class Emboss : public NeighbourhoodOp {
 public:
  explicit Emboss(OpArguments& arguments)
      : alpha_(arguments.drawn("alpha")), strength_(arguments.drawn("strength")) {}
  Status plan(const ImageSize&, RandomStream& rng, OpDraw& draw) const override {
    draw.values = {static_cast<float>(alpha_.draw(rng)), static_cast<float>(strength_.draw(rng))};
    return {};
  }
  int reach(const OpDraw&) const override { return 1; }
  Status apply(const OpDraw& draw, const ConstImageView& in, const ImageView& out,
               ChainScratch& scratch) const override {
    constexpr int kOne = 1 << 10;
    const auto alpha = static_cast<double>(draw.values[0]);
    const auto s = static_cast<double>(draw.values[1]);
    const std::array<double, 9> filter = {-1 - s, -s, 0, -s, 1, s, 0, s, 1 + s};
    std::array<int, 9> weights{};
    for (size_t i = 0; i < weights.size(); ++i)
      weights[i] = static_cast<int>(std::nearbyint((alpha * filter[i] + (i == 4 ? 1 - alpha : 0)) * kOne));
    const ConstImageView wide = surroundings(draw, in, Border::kReflect, scratch);
    convolve3x3(wide, weights, kOne, out);
    return {};
  }

 private:
  Drawn alpha_;
  Drawn strength_;
};

}  // namespace

extern const OpRecord emboss_augmentation = {.name = "emboss",
                                             .help = "slopes lit from one side (Emboss)",
                                             .version = 1,
                                             .params = {{.name = "alpha",
                                                         .kind = "drawn",
                                                         .default_value = "0.2..0.5",
                                                         .help = "share of the embossed picture",
                                                         .low = 0,
                                                         .high = 1},
                                                        {.name = "strength",
                                                         .kind = "drawn",
                                                         .default_value = "0.2..0.7",
                                                         .help = "of the light",
                                                         .low = 0,
                                                         .high = 4},
                                                        probability()},
                                             .build = build_op<Emboss>};

}  // namespace dlpipe::augment
