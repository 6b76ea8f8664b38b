// rrc(size, scale, ratio): torchvision's RandomResizedCrop. A crop of random area (a uniform share of the
// image's) and random aspect ratio (uniform in its logarithm), resized to `size`. A crop that doesn't fit is
// drawn again, ten times in all; then the middle is taken, as large as the ratio's bounds allow.
#include <algorithm>
#include <cmath>

#include "dlpipe/augment/chain.h"
#include "dlpipe/augment/op.h"
#include "dlpipe/augment/resample.h"
#include "dlpipe/base/portable_math.h"

namespace dlpipe::augment {

namespace {

class RandomResizedCrop : public ResizeOp {
 public:
  explicit RandomResizedCrop(OpArguments& arguments)
      : size_(arguments.size("size")),
        scale_(arguments.drawn("scale")),
        ratio_(arguments.drawn("ratio")),
        interpolation_(parse_interpolation(arguments.text("interpolation"))),
        log_ratio_{portable_log(ratio_.low), portable_log(ratio_.high)} {}

  ImageSize output(const ImageSize& in) const override { return {size_.width, size_.height, in.channels}; }

  Status plan(const ImageSize& in, RandomStream& rng, OpDraw& draw) const override {
    const double area = static_cast<double>(in.width) * in.height;
    for (int attempt = 0; attempt < 10; ++attempt) {
      const double crop_area = area * scale_.draw(rng);
      const double ratio = portable_exp(log_ratio_.draw(rng));
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
    resample(interpolation_, geometry(draw), in, out, draw.mirror, scratch.work);
    return {};
  }
  std::optional<PlannedResize> as_resize(const OpDraw& draw) const override {
    if (interpolation_ != Interpolation::kBilinear) return std::nullopt;
    return PlannedResize{geometry(draw), draw.mirror};
  }
  size_t scratch_bytes(const OpDraw& draw, int channels) const override {
    return resample_work_bytes(interpolation_, geometry(draw), channels);
  }

 private:
  ResizeGeometry geometry(const OpDraw& draw) const {
    return whole_resize(draw.region.width, draw.region.height, size_.width, size_.height);
  }

  /// The largest crop around the centre whose ratio is within bounds.
  Region middle(const ImageSize& in) const {
    const double ratio = static_cast<double>(in.width) / in.height;
    int width = in.width;
    int height = in.height;
    if (ratio < ratio_.low) height = static_cast<int>(std::nearbyint(width / ratio_.low));
    if (ratio > ratio_.high) width = static_cast<int>(std::nearbyint(height * ratio_.high));
    width = std::clamp(width, 1, in.width);
    height = std::clamp(height, 1, in.height);
    return {(in.width - width) / 2, (in.height - height) / 2, width, height};
  }

  ImageSize size_;
  Drawn scale_;  // share of the area
  Drawn ratio_;  // width over height
  Interpolation interpolation_;
  Drawn log_ratio_;
};

}  // namespace

extern const OpRecord rrc_augmentation = {
    .name = "rrc",
    .help = "a crop of random area and aspect ratio, resized (RandomResizedCrop)",
    .version = 1,
    .params = {{"size", "size", "", "height x width of the result, or one number for a square"},
               {"scale", "range", "0.08..1", "share of the image's area that the crop takes", 1e-4, 1},
               {"ratio", "range", "3/4..4/3", "width over height of the crop", 1e-3, 1e3},
               resize_interpolation_parameter()},
    .build = build_op<RandomResizedCrop>,
    .traits = {.can_mirror = true}};

}  // namespace dlpipe::augment
