// solarize(threshold): values from a threshold on inverted (PIL.ImageOps.solarize).
#include <cmath>

#include "dlpipe/augment/kinds.h"

namespace dlpipe::augment {

namespace {

class Solarize : public LookupOp {
 public:
  explicit Solarize(OpArguments& arguments) : threshold_(arguments.drawn("threshold")) {}
  Status plan(const ImageSize&, RandomStream& rng, OpDraw& draw) const override {
    draw.values[0] = static_cast<float>(std::ceil(threshold_.draw(rng)));
    return {};
  }
  uint8_t value(const OpDraw& draw, int from) const override {
    return static_cast<uint8_t>(static_cast<float>(from) < draw.values[0] ? from : 255 - from);
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
