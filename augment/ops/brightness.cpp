// brightness(factor): every value times a factor, cut off to whole numbers (PIL.ImageEnhance.Brightness).
#include "dlpipe/augment/kinds.h"

namespace dlpipe::augment {

namespace {

class Brightness : public LookupOp {
 public:
  explicit Brightness(OpArguments& arguments) : factor_(arguments.drawn("factor")) {}
  Status plan(const ImageSize&, RandomStream& rng, OpDraw& draw) const override {
    draw.values[0] = static_cast<float>(factor_.draw(rng));
    return {};
  }
  uint8_t value(const OpDraw& draw, int from) const override { return blend(0, from, draw.values[0]); }

 private:
  Drawn factor_;
};

}  // namespace

extern const OpRecord brightness_augmentation = {
    .name = "brightness",
    .help = "every value times a factor",
    .version = 1,
    .params = {factor_parameter("factor", "0.4", "0 is black, 1 changes nothing"), probability()},
    .build = build_op<Brightness>};

}  // namespace dlpipe::augment
