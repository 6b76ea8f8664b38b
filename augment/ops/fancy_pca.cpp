// fancy_pca(sigma): the colours moved along the principal components of ImageNet's, each by a normal number times sigma
// (Krizhevsky et al., "ImageNet Classification with Deep Convolutional Neural Networks", 2012, section 4.1).
#include <cmath>

#include "dlpipe/augment/kinds.h"

namespace dlpipe::augment {

namespace {

// Of ImageNet's training pixels in 0..1: standard deviations along the components, and the components (columns).
constexpr double kDeviation[3] = {0.2175, 0.0188, 0.0045};
constexpr double kComponents[3][3] = {
    {-0.5675, 0.7192, 0.4009}, {-0.5808, -0.0045, -0.8140}, {-0.5836, -0.6948, 0.4203}};

class FancyPca : public ColorOp {
 public:
  explicit FancyPca(OpArguments& arguments) : sigma_(arguments.number("sigma")) {}
  Status draw_color(RandomStream& rng, OpDraw& draw) const override {
    double along[3];
    for (int k = 0; k < 3; ++k) along[k] = sigma_ * rng.normal() * kDeviation[k];
    for (size_t c = 0; c < 3; ++c) {
      double sum = 0;
      for (int k = 0; k < 3; ++k) sum += kComponents[c][k] * along[k];
      draw.values[c] = static_cast<float>(sum * 255);
    }
    return {};
  }
  Status apply(const OpDraw& draw, const ConstImageView& in, const ImageView& out,
               ChainScratch&) const override {
    LookupTables tables;
    for (size_t c = 0; c < tables.of.size(); ++c) {
      const float added = c < 3 ? draw.values[c] : 0;
      for (size_t v = 0; v < 256; ++v)
        tables.of[c][v] =
            static_cast<uint8_t>(std::clamp(std::floor(static_cast<float>(v) + added + 0.5f), 0.0f, 255.0f));
    }
    look_up(tables, in, out);
    return {};
  }

 private:
  double sigma_;
};

}  // namespace

extern const OpRecord fancy_pca_augmentation = {
    .name = "fancy_pca",
    .help = "colours moved as ImageNet's vary (AlexNet's lighting); grey pictures stay",
    .version = 1,
    .params = {{.name = "sigma",
                .kind = "float",
                .default_value = "0.1",
                .help = "standard deviation of the moves, 1 being ImageNet's own",
                .low = 0,
                .high = 10},
               probability()},
    .build = build_op<FancyPca>};

}  // namespace dlpipe::augment
