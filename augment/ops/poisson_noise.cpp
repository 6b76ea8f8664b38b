// poisson_noise(photons): the noise of counting light: a value that stands for n photons gets noise of standard deviation
// sqrt(n), normally distributed as that of many photons is.
#include <cmath>

#include "dlpipe/augment/kinds.h"
#include "dlpipe/augment/noise.h"

namespace dlpipe::augment {

namespace {

class PoissonNoise : public Op {
 public:
  explicit PoissonNoise(OpArguments& arguments) : photons_(arguments.drawn("photons")) {}
  Status plan(const ImageSize&, RandomStream& rng, OpDraw& draw) const override {
    draw.values[0] = static_cast<float>(photons_.draw(rng));
    draw.key = draw_key(rng);
    return {};
  }
  Status apply(const OpDraw& draw, const ConstImageView& in, const ImageView& out,
               ChainScratch& scratch) const override {
    std::array<int, 256> scale{};  // of each value its standard deviation, 8 bits after the point
    for (size_t v = 0; v < scale.size(); ++v) {
      const double per_value = static_cast<double>(draw.values[0]) / 255;
      scale[v] = static_cast<int>(std::floor(std::sqrt(static_cast<double>(v) / per_value) * 256 + 0.5));
    }
    add_normal_noise(draw.key, scale, 0, in, out, scratch.rows);
    return {};
  }

 private:
  Drawn photons_;
};

}  // namespace

extern const OpRecord poisson_noise_augmentation = {
    .name = "poisson_noise",
    .help = "the noise of counting light, more where it is brighter",
    .version = 1,
    .params = {{.name = "photons",
                .kind = "drawn",
                .default_value = "100..1000",
                .help = "photons that the brightest value stands for; fewer make more noise",
                .low = 1,
                .high = 100000},
               probability()},
    .build = build_op<PoissonNoise>};

}  // namespace dlpipe::augment
