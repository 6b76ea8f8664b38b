// random_crop(size): a crop at a random place, all places equally often (torchvision's RandomCrop).
#include "dlpipe/augment/kinds.h"
#include "dlpipe/base/text.h"

namespace dlpipe::augment {

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

}  // namespace dlpipe::augment
