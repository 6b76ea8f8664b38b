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
    .help = "the middle of the image, framed with zeros where the image is smaller",
    .version = 1,
    .params = {{"size", "size", "", "height x width, or one number for a square"}},
    .build = build_op<CenterCrop>,
    .traits = {.can_mirror = true}};

}  // namespace dlpipe::augment
