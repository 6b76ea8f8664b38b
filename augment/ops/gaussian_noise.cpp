// gaussian_noise(sigma, mean): normally distributed noise added to every value, rounded and clipped.
#include <cmath>

#include "dlpipe/augment/kinds.h"
#include "dlpipe/augment/noise.h"

namespace dlpipe::augment {

namespace {

class GaussianNoise : public Op {
 public:
  explicit GaussianNoise(OpArguments& arguments)
      : sigma_(arguments.drawn("sigma")), mean_(arguments.drawn("mean")) {}
  Status plan(const ImageSize&, RandomStream& rng, OpDraw& draw) const override {
    draw.values = {static_cast<float>(sigma_.draw(rng)), static_cast<float>(mean_.draw(rng))};
    draw.key = draw_key(rng);
    return {};
  }
  Status apply(const OpDraw& draw, const ConstImageView& in, const ImageView& out,
               ChainScratch& scratch) const override {
    std::array<int, 256> deviation;
    deviation.fill(static_cast<int>(std::floor(static_cast<double>(draw.values[0]) * 255 * 256 + 0.5)));
    const int offset = static_cast<int>(static_cast<double>(draw.values[1]) * 255 * 256);
    add_normal_noise(draw.key, deviation, offset, in, out, scratch.rows);
    return {};
  }

 private:
  Drawn sigma_;
  Drawn mean_;
};

}  // namespace

extern const OpRecord gaussian_noise_augmentation = {
    .name = "gaussian_noise",
    .help = "normally distributed noise added to every value (GaussNoise)",
    .version = 1,
    .params = {{.name = "sigma",
                .kind = "drawn",
                .default_value = "0.1",
                .help = "standard deviation, 1 being the whole range of values",
                .low = 0,
                .high = 1},
               {.name = "mean",
                .kind = "drawn",
                .default_value = "0",
                .help = "mean, 1 being the whole range of values",
                .low = -1,
                .high = 1},
               probability()},
    .build = build_op<GaussianNoise>};

}  // namespace dlpipe::augment
