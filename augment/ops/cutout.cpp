// cutout(size, fill, p): a square set to one colour, its centre uniform over the image, cut off at the
// borders (DeVries and Taylor, "Improved Regularization of Convolutional Neural Networks with Cutout", 2017).
#include <algorithm>
#include <cmath>

#include "dlpipe/augment/copy.h"
#include "dlpipe/augment/op.h"
#include "dlpipe/base/text.h"

namespace dlpipe::augment {

namespace {

class Cutout : public Op {
 public:
  Cutout(const ImageSize& size, const std::vector<double>& fill, double probability)
      : width_(size.width), height_(size.height), fill_count_(fill.size()), probability_(probability) {
    for (size_t c = 0; c < fill_.size(); ++c) {
      fill_[c] = static_cast<uint8_t>(fill[std::min(c, fill.size() - 1)]);
    }
  }

  ImageSize output(const ImageSize& in) const override { return in; }

  Status plan(const ImageSize& in, RandomStream& rng, OpDraw& draw) const override {
    if (fill_count_ != 1 && fill_count_ != static_cast<size_t>(in.channels)) {
      return Status(ErrorCode::kMisuse, concat("fill has ", fill_count_, " values, the image ", in.channels,
                                               " channels; give one value, or one a channel"));
    }
    draw.active = rng.uniform_double() < probability_;
    const int y = static_cast<int>(rng.below(static_cast<uint32_t>(in.height))) - height_ / 2;
    const int x = static_cast<int>(rng.below(static_cast<uint32_t>(in.width))) - width_ / 2;
    draw.region = {0, 0, in.width, in.height};
    draw.out = in;
    draw.values = {static_cast<float>(x), static_cast<float>(y)};
    return {};
  }

  Status apply(const OpDraw& draw, const ConstImageView& in, const ImageView& out,
               ChainScratch&) const override {
    const int x = static_cast<int>(draw.values[0]);
    copy_image(in, out, draw.mirror);
    fill_region(out,
                {draw.mirror ? out.width - x - width_ : x, static_cast<int>(draw.values[1]), width_, height_},
                fill_);
    return {};
  }

 private:
  int width_;
  int height_;
  Pixel fill_{};
  size_t fill_count_;
  double probability_;
};

Result<std::shared_ptr<const Op>> build(const OpArguments& arguments) {
  DLPIPE_ASSIGN_OR_RETURN(const ImageSize size, arguments.size("size"));
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<double> fill, arguments.numbers("fill"));
  DLPIPE_ASSIGN_OR_RETURN(const double p, arguments.number("p"));
  for (double value : fill) {
    if (value < 0 || value > 255 || value != std::floor(value)) {
      return Status(ErrorCode::kMisuse, concat("fill must be whole numbers in 0..255, got ", value));
    }
  }
  if (fill.size() > Pixel{}.size()) {
    return Status(ErrorCode::kMisuse, concat("fill must be one value, or one a channel, got ", fill.size()));
  }
  if (p < 0 || p > 1) return Status(ErrorCode::kMisuse, concat("p must lie in 0..1, got ", p));
  return std::shared_ptr<const Op>(std::make_shared<Cutout>(size, fill, p));
}

}  // namespace

extern const OpRecord cutout_augmentation = {
    "cutout",
    "a square at a random place set to one colour",
    1,
    {{"size", "size", "", "height x width of the patch, or one number for a square"},
     {"fill", "list", "0", "its value in 0..255: one for all channels, or r:g:b"},
     {"p", "float", "1", "probability"}},
    build,
    {.can_mirror = true}};

}  // namespace dlpipe::augment
