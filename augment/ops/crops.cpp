// Crops and resizes: which part of the image is used, and at what size.
#include <algorithm>
#include <cmath>
#include <limits>

#include "augment/copy.h"
#include "augment/kinds.h"
#include "augment/resize.h"
#include "base/portable_math.h"
#include "base/text.h"
#include "dlpipe/augment.h"
#include "dlpipe/augment_op.h"

namespace dlpipe::augment {

// center_crop(size): the middle of the image. A smaller image is padded with zeros. Corners are torchvision's: (image - crop) /
// 2 rounded half to even; a frame's left and top are rounded down.
namespace {

/// Where a crop of `crop` begins in `size` pixels; negative if padding is needed before it.
int crop_begin(int size, int crop) {
  if (crop > size) return -((crop - size) / 2);
  return static_cast<int>(std::nearbyint((size - crop) / 2.0));  // half to even, the default rounding mode
}

class CenterCrop : public Op {
 public:
  explicit CenterCrop(OpArguments& arguments) : size_(arguments.size("size")) {}

  ImageSize output(const ImageSize& in) const override { return {size_.width, size_.height, in.channels}; }
  Status plan(const ImageSize& in, RandomStream&, OpDraw& draw) const override {
    const int x = crop_begin(in.width, size_.width);
    const int y = crop_begin(in.height, size_.height);
    draw.region = {std::max(x, 0), std::max(y, 0), std::min(size_.width, in.width),
                   std::min(size_.height, in.height)};
    draw.crop_only = size_.width <= in.width && size_.height <= in.height;
    return {};
  }
  Status apply(const OpDraw& draw, const ConstImageView& in, const ImageView& out,
               ChainScratch&) const override {
    const int x = std::max(-crop_begin(draw.in.width, size_.width), 0);
    const int y = std::max(-crop_begin(draw.in.height, size_.height), 0);
    place_image(in, x, y, Pixel{}, out, draw.mirror);
    return {};
  }
  Movement movement(const OpDraw& draw) const override {
    return Movement::shifted(crop_begin(draw.in.width, size_.width),
                             crop_begin(draw.in.height, size_.height));
  }

 private:
  ImageSize size_;
};

}  // namespace

extern const OpRecord center_crop_augmentation = {
    .name = "center_crop",
    .help = "the middle of the image, padded with zeros if the image is smaller",
    .version = 1,
    .params = {{"size", "size", "", "height x width, or one number for a square"}},
    .build = build_op<CenterCrop>,
    .traits = {.can_mirror = true}};

// random_crop(size): a crop at a random place, uniformly distributed (torchvision's RandomCrop).
namespace {

class RandomCrop : public CopyingOp<Op> {
 public:
  explicit RandomCrop(OpArguments& arguments) : size_(arguments.size("size")) {}
  ImageSize output(const ImageSize& in) const override { return {size_.width, size_.height, in.channels}; }
  Status plan(const ImageSize& in, RandomStream& rng, OpDraw& draw) const override {
    if (size_.width > in.width || size_.height > in.height) {
      return {ErrorCode::kUnsupported,
              concat("an image of ", in.width, "x", in.height, " is smaller than the crop of ", size_.width,
                     "x", size_.height, " (width x height); put resize, pad_to or rrc before it")};
    }
    const auto y = static_cast<int>(rng.below(static_cast<uint32_t>(in.height - size_.height + 1)));
    const auto x = static_cast<int>(rng.below(static_cast<uint32_t>(in.width - size_.width + 1)));
    draw.region = {x, y, size_.width, size_.height};
    draw.crop_only = true;
    return {};
  }

 private:
  ImageSize size_;
};

}  // namespace

extern const OpRecord random_crop_augmentation = {
    .name = "random_crop",
    .help = "a crop at a random place (RandomCrop)",
    .version = 1,
    .params = {{"size", "size", "", "height x width, or one number for a square"}},
    .build = build_op<RandomCrop>};

// resize(size, interpolation, side): the whole image, antialiased. One number is the length of the shorter side, or the
// longer one; the other follows (rounded down, as torchvision does). HxW is exact and may change the aspect ratio.
namespace {

class Resize : public ResizeOp {
 public:
  explicit Resize(OpArguments& arguments)
      : size_(arguments.size("size", &is_one_side_)),
        interpolation_(parse_interpolation(arguments.text("interpolation"))),
        is_longer_(arguments.text("side") == "longer") {
    if (is_longer_ && !is_one_side_)
      arguments.refuse(
          {ErrorCode::kMisuse, "side=longer needs a single length; leave out side, or give one number"});
  }

  ImageSize output(const ImageSize& in) const override {
    if (!is_one_side_) return {size_.width, size_.height, in.channels};
    if (in.width <= 0 || in.height <= 0) return {0, 0, in.channels};
    const int64_t given = size_.width;
    const auto other = [&](int64_t side, int64_t other_side) {
      const int64_t length = given * side / other_side;
      return static_cast<int>(std::clamp<int64_t>(length, 1, std::numeric_limits<int>::max()));
    };
    if ((in.width <= in.height) != is_longer_ || in.width == in.height)
      return {size_.width, other(in.height, in.width), in.channels};
    return {other(in.width, in.height), size_.width, in.channels};
  }

  Status plan(const ImageSize& in, RandomStream&, OpDraw& draw) const override {
    // The chain checks how much of it is written when that is known (chain.cpp, check_written).
    constexpr int kMostSide = 1 << 24;
    if (draw.out.width > kMostSide || draw.out.height > kMostSide) {
      return Status(ErrorCode::kUnsupported,
                    concat("an image of ", in.width, "x", in.height, " would become ", draw.out.width, "x",
                           draw.out.height, ", more than ", kMostSide, "; give both sides as HxW"));
    }
    draw.crop_only = draw.out == in;
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
  bool narrow(const Region& needed, OpDraw& draw) const override {
    draw.window = needed;
    draw.region = resample_support(interpolation_, geometry(draw));
    return true;
  }

 private:
  static ResizeGeometry geometry(const OpDraw& draw) {
    ResizeGeometry whole = whole_resize(draw.in.width, draw.in.height, draw.out.width, draw.out.height);
    whole.window = draw.window;
    return whole;
  }

  bool is_one_side_ = false;
  ImageSize size_;
  Interpolation interpolation_;
  bool is_longer_;  // the one side is the longer one, else the shorter
};

}  // namespace

extern const OpRecord resize_augmentation = {
    .name = "resize",
    .help = "resize the whole image, antialiased",
    .version = 1,
    .params = {{"size", "size", "", "length of the shorter side, or height x width"},
               resize_interpolation_parameter(),
               {.name = "side",
                .kind = "string",
                .default_value = "shorter",
                .help = "which side a single number refers to",
                .choices = {"shorter", "longer"},
                .is_late = true}},
    .build = build_op<Resize>,
    .traits = {.can_mirror = true}};

// rrc(size, scale, ratio): torchvision's RandomResizedCrop. A crop of random area (a uniform fraction of the
// image's) and random aspect ratio (uniform in its logarithm), resized to `size`. A crop that does not fit is
// drawn again, ten times in all; then the middle is used, as large as the ratio's bounds allow.
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
               {"scale", "range", "0.08..1", "share of the image's area that is cropped", 1e-4, 1},
               {"ratio", "range", "3/4..4/3", "width over height of the crop", 1e-3, 1e3},
               resize_interpolation_parameter()},
    .build = build_op<RandomResizedCrop>,
    .traits = {.can_mirror = true}};

}  // namespace dlpipe::augment
