// gamma(gamma, gain): 255 gain (v / 255)^gamma, cut off to whole numbers as torchvision's adjust_gamma does for PIL
// images: of (255 + 1 - 0.001) in place of 255.
#include <array>

#include "dlpipe/augment/kinds.h"
#include "dlpipe/base/portable_math.h"

namespace dlpipe::augment {

namespace {

class Gamma : public LookupOp {
 public:
  explicit Gamma(OpArguments& arguments) : gamma_(arguments.drawn("gamma")), gain_(arguments.number("gain")) {
    for (int value = 1; value < 256; ++value) logs_[static_cast<size_t>(value)] = portable_log(value / 255.0);
  }
  Status plan(const ImageSize&, RandomStream& rng, OpDraw& draw) const override {
    draw.values[0] = static_cast<float>(gamma_.draw(rng));
    return {};
  }
  uint8_t value(const OpDraw& draw, int from) const override {
    if (from == 0) return 0;
    const double power = portable_exp(static_cast<double>(draw.values[0]) * logs_[static_cast<size_t>(from)]);
    return static_cast<uint8_t>(std::min((255 + 1 - 1e-3) * gain_ * power, 255.0));
  }

 private:
  Drawn gamma_;
  double gain_;
  std::array<double, 256> logs_{};  // of values, as shares of 255
};

}  // namespace

extern const OpRecord gamma_augmentation = {.name = "gamma",
                                            .help = "every value to the power of gamma, on a scale of 0 to 1",
                                            .version = 1,
                                            .params = {{.name = "gamma",
                                                        .kind = "drawn",
                                                        .default_value = "0.8..1.2",
                                                        .help = "above 1 darkens, below 1 brightens",
                                                        .low = 0.01,
                                                        .high = 100},
                                                       {.name = "gain",
                                                        .kind = "float",
                                                        .default_value = "1",
                                                        .help = "factor of the result",
                                                        .low = 0,
                                                        .high = 100},
                                                       probability()},
                                            .build = build_op<Gamma>};

}  // namespace dlpipe::augment
