// solarize(threshold): values from a threshold on inverted (PIL.ImageOps.solarize).
#include <cmath>

#include "dlpipe/augment/kinds.h"

namespace dlpipe::augment {

namespace {

class Solarize : public PixelOp {
 public:
  explicit Solarize(OpArguments& arguments) : threshold_(arguments.drawn("threshold")) {}
  Status plan(const ImageSize&, RandomStream& rng, OpDraw& draw) const override {
    draw.values[0] = static_cast<float>(std::ceil(threshold_.draw(rng)));
    return {};
  }
  Status apply(const OpDraw& draw, const ConstImageView& in, const ImageView& out,
               ChainScratch&) const override {
    fold_values(0xff, static_cast<int>(draw.values[0]), in, out);
    return {};
  }

 private:
  Drawn threshold_;
};

}  // namespace

extern const OpRecord solarize_augmentation = {.name = "solarize",
                                               .help = "values from a threshold on inverted",
                                               .version = 1,
                                               .params = {{.name = "threshold",
                                                           .kind = "drawn",
                                                           .default_value = "128",
                                                           .help = "values from here on are inverted",
                                                           .low = 0,
                                                           .high = 256},
                                                          probability()},
                                               .build = build_op<Solarize>};

}  // namespace dlpipe::augment
