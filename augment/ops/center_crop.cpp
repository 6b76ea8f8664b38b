// center_crop(size): the middle of the image. Where the image is smaller it is framed with zeros. Corners are
// torchvision's: (image - crop) / 2 rounded half to even; a frame's left and top are rounded down.
#include <algorithm>
#include <cmath>

#include "dlpipe/augment/copy.h"
#include "dlpipe/augment/op.h"

namespace dlpipe::augment {

namespace {

/// Where a crop of `crop` begins in `size` pixels; negative when a frame is needed before it.
int crop_begin(int size, int crop) {
  if (crop > size) return -((crop - size) / 2);
  return static_cast<int>(std::nearbyint((size - crop) / 2.0));  // half to even, the default rounding mode
}

class CenterCrop : public Op {
 public:
  explicit CenterCrop(const ImageSize& size) : width_(size.width), height_(size.height) {}

  ImageSize output(const ImageSize& in) const override { return {width_, height_, in.channels}; }
  Status plan(const ImageSize& in, RandomStream&, OpDraw& draw) const override {
    const int x = crop_begin(in.width, width_);
    const int y = crop_begin(in.height, height_);
    draw.region = {std::max(x, 0), std::max(y, 0), std::min(width_, in.width), std::min(height_, in.height)};
    draw.out = output(in);
    draw.crop_only = width_ <= in.width && height_ <= in.height;
    return {};
  }
  Status apply(const OpDraw& draw, const ConstImageView& in, const ImageView& out,
               ChainScratch&) const override {
    const int x = std::max(-crop_begin(draw.in.width, width_), 0);
    const int y = std::max(-crop_begin(draw.in.height, height_), 0);
    place_image(in, x, y, Pixel{}, out, draw.mirror);
    return {};
  }

 private:
  int width_;
  int height_;
};

Result<std::shared_ptr<const Op>> build(const OpArguments& arguments) {
  DLPIPE_ASSIGN_OR_RETURN(const ImageSize size, arguments.size("size"));
  return std::shared_ptr<const Op>(std::make_shared<CenterCrop>(size));
}

}  // namespace

extern const OpRecord center_crop_augmentation = {
    "center_crop",
    "the middle of the image, framed with zeros where the image is smaller",
    1,
    {{"size", "size", "", "height x width, or one number for a square"}},
    build,
    {.can_mirror = true}};

}  // namespace dlpipe::augment
