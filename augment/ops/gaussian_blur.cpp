// gaussian_blur(size, sigma): torchvision's GaussianBlur: weights exp(-x^2 / 2 sigma^2) at `size` whole distances, made to
// sum to 1, the picture mirrored at its border. Weights have 16 bits and what stands between the two passes has 8 bits
// after the point, so results differ from floats by at most 1.
#include <cmath>

#include "dlpipe/augment/blur_weights.h"
#include "dlpipe/augment/kinds.h"
#include "dlpipe/base/text.h"

namespace dlpipe::augment {

namespace {

class GaussianBlur : public NeighbourhoodOp {
 public:
  explicit GaussianBlur(OpArguments& arguments)
      : size_(arguments.is_none("size") ? 0 : arguments.integer("size")), sigma_(arguments.drawn("sigma")) {
    if (size_ > 0 && size_ % 2 == 0)
      arguments.refuse(
          {ErrorCode::kMisuse, concat("size must be odd, so that it has a middle, got ", size_)});
  }
  Status plan(const ImageSize&, RandomStream& rng, OpDraw& draw) const override {
    const double sigma = sigma_.draw(rng);
    const int half = size_ / 2;
    draw.values = {static_cast<float>(sigma),
                   size_ > 0 ? static_cast<float>(half) : static_cast<float>(std::ceil(3 * sigma))};
    return {};
  }
  int reach(const OpDraw& draw) const override { return static_cast<int>(draw.values[1]); }
  Status apply(const OpDraw& draw, const ConstImageView& in, const ImageView& out,
               ChainScratch& scratch) const override {
    blur(draw, gaussian_weights(static_cast<double>(draw.values[0]), reach(draw)), in, out, scratch);
    return {};
  }

 private:
  int size_;  // 0: three sigma to each side
  Drawn sigma_;
};

}  // namespace

extern const OpRecord gaussian_blur_augmentation = {
    .name = "gaussian_blur",
    .help = "blurred with a normal distribution's weights (GaussianBlur)",
    .version = 1,
    .params = {{.name = "size",
                .kind = "int",
                .default_value = "none",
                .help = "width of the kernel, an odd number; none: three sigma to each side",
                .low = 1,
                .high = 99,
                .unit = "pixels"},
               {.name = "sigma",
                .kind = "drawn",
                .default_value = "0.1..2",
                .help = "standard deviation",
                .low = 0.01,
                .high = 16,
                .unit = "pixels"},
               probability()},
    .build = build_op<GaussianBlur>};

}  // namespace dlpipe::augment
