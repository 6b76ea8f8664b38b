// rrc(size, scale, ratio): torchvision's RandomResizedCrop. A crop of random area (a uniform share of the
// image's) and random aspect ratio (uniform in its logarithm), resized to `size`. A crop that doesn't fit is
// drawn again, ten times in all; then the middle is taken, as large as the ratio's bounds allow.
#include <algorithm>
#include <cmath>

#include "dlpipe/augment/chain.h"
#include "dlpipe/augment/op.h"
#include "dlpipe/augment/resize.h"
#include "dlpipe/base/portable_math.h"
#include "dlpipe/base/text.h"

namespace dlpipe::augment {

namespace {

class RandomResizedCrop : public ResizeOp {
 public:
  RandomResizedCrop(const ImageSize& size, double scale_low, double scale_high, double ratio_low,
                    double ratio_high)
      : width_(size.width),
        height_(size.height),
        scale_low_(scale_low),
        scale_high_(scale_high),
        ratio_low_(ratio_low),
        ratio_high_(ratio_high),
        log_ratio_low_(portable_log(ratio_low)),
        log_ratio_high_(portable_log(ratio_high)) {}

  ImageSize output(const ImageSize& in) const override { return {width_, height_, in.channels}; }

  Status plan(const ImageSize& in, RandomStream& rng, OpDraw& draw) const override {
    draw.out = output(in);
    const double area = static_cast<double>(in.width) * in.height;
    for (int attempt = 0; attempt < 10; ++attempt) {
      const double crop_area = area * (scale_low_ + (scale_high_ - scale_low_) * rng.uniform_double());
      const double ratio =
          portable_exp(log_ratio_low_ + (log_ratio_high_ - log_ratio_low_) * rng.uniform_double());
      const double width = std::nearbyint(std::sqrt(crop_area * ratio));
      const double height = std::nearbyint(std::sqrt(crop_area / ratio));
      if (width < 1 || height < 1 || width > in.width || height > in.height) continue;
      const int w = static_cast<int>(width);
      const int h = static_cast<int>(height);
      const int y = static_cast<int>(rng.below(static_cast<uint32_t>(in.height - h + 1)));
      const int x = static_cast<int>(rng.below(static_cast<uint32_t>(in.width - w + 1)));
      draw.region = {x, y, w, h};
      return {};
    }
    draw.region = middle(in);
    return {};
  }

  Status apply(const OpDraw& draw, const ConstImageView& in, const ImageView& out,
               ChainScratch& scratch) const override {
    resize(whole_resize(in.width, in.height, out.width, out.height), in, out, draw.mirror, scratch.work);
    return {};
  }
  PlannedResize as_resize(const OpDraw& draw) const override {
    return PlannedResize{whole_resize(draw.region.width, draw.region.height, width_, height_), draw.mirror};
  }

 private:
  /// The largest crop around the centre whose ratio is within bounds.
  Region middle(const ImageSize& in) const {
    const double ratio = static_cast<double>(in.width) / in.height;
    int width = in.width;
    int height = in.height;
    if (ratio < ratio_low_) height = static_cast<int>(std::nearbyint(width / ratio_low_));
    if (ratio > ratio_high_) width = static_cast<int>(std::nearbyint(height * ratio_high_));
    width = std::clamp(width, 1, in.width);
    height = std::clamp(height, 1, in.height);
    return {(in.width - width) / 2, (in.height - height) / 2, width, height};
  }

  int width_;
  int height_;
  double scale_low_;
  double scale_high_;
  double ratio_low_;
  double ratio_high_;
  double log_ratio_low_;
  double log_ratio_high_;
};

Result<std::shared_ptr<const Op>> build(const OpArguments& arguments) {
  DLPIPE_ASSIGN_OR_RETURN(const ImageSize size, arguments.size("size"));
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<double> scale, arguments.numbers("scale"));
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<double> ratio, arguments.numbers("ratio"));
  if (scale[0] <= 0 || scale[1] > 1) {
    return Status(ErrorCode::kMisuse,
                  concat("scale is a share of the image and must lie above 0 and up to 1, got ", scale[0],
                         "..", scale[1]));
  }
  if (ratio[0] < 1e-3 || ratio[1] > 1e3) {
    return Status(ErrorCode::kMisuse, concat("ratio is width over height and must lie in 0.001..1000, got ",
                                             ratio[0], "..", ratio[1]));
  }
  return std::shared_ptr<const Op>(
      std::make_shared<RandomResizedCrop>(size, scale[0], scale[1], ratio[0], ratio[1]));
}

}  // namespace

extern const OpRecord rrc_augmentation = {
    "rrc",
    "a crop of random area and aspect ratio, resized (RandomResizedCrop)",
    1,
    {{"size", "size", "", "height x width of the result, or one number for a square"},
     {"scale", "range", "0.08..1", "share of the image's area that the crop takes"},
     {"ratio", "range", "3/4..4/3", "width over height of the crop"}},
    build,
    {.can_mirror = true}};

}  // namespace dlpipe::augment
