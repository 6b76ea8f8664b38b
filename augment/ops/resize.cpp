// resize(size): the whole image, antialiased bilinear. One number is the length of the shorter side, the
// other follows (rounded down, as torchvision does); HxW is exact and may change the aspect ratio.
#include "dlpipe/augment/resize.h"

#include <algorithm>
#include <limits>

#include "dlpipe/augment/chain.h"
#include "dlpipe/augment/op.h"
#include "dlpipe/augment/value.h"
#include "dlpipe/base/text.h"

namespace dlpipe::augment {

namespace {

class Resize : public ResizeOp {
 public:
  explicit Resize(OpArguments& arguments) : size_(arguments.size("size", &is_shorter_side_)) {}

  ImageSize output(const ImageSize& in) const override {
    if (!is_shorter_side_) return {size_.width, size_.height, in.channels};
    if (in.width <= 0 || in.height <= 0) return {0, 0, in.channels};
    const int64_t shorter = size_.width;
    const auto longer = [&](int64_t side, int64_t other) {
      return static_cast<int>(std::min<int64_t>(shorter * side / other, std::numeric_limits<int>::max()));
    };
    if (in.width <= in.height) return {size_.width, longer(in.height, in.width), in.channels};
    return {longer(in.width, in.height), size_.width, in.channels};
  }

  Status plan(const ImageSize& in, RandomStream&, OpDraw& draw) const override {
    if (draw.out.width > kMaxSize || draw.out.height > kMaxSize) {
      return Status(ErrorCode::kUnsupported,
                    concat("an image of ", in.width, "x", in.height, " would become ", draw.out.width, "x",
                           draw.out.height, ", more than ", kMaxSize, "; give both sides, as HxW"));
    }
    draw.crop_only = draw.out == in;
    return {};
  }

  Status apply(const OpDraw& draw, const ConstImageView& in, const ImageView& out,
               ChainScratch& scratch) const override {
    resize(geometry(draw), in, out, draw.mirror, scratch.work);
    return {};
  }

  PlannedResize as_resize(const OpDraw& draw) const override {
    return PlannedResize{geometry(draw), draw.mirror};
  }
  bool narrow(const Region& needed, OpDraw& draw) const override {
    draw.window = needed;
    draw.region = resize_support(geometry(draw));
    return true;
  }

 private:
  static ResizeGeometry geometry(const OpDraw& draw) {
    ResizeGeometry whole = whole_resize(draw.in.width, draw.in.height, draw.out.width, draw.out.height);
    whole.window = draw.window;
    return whole;
  }

  bool is_shorter_side_ = false;
  ImageSize size_;
};

}  // namespace

extern const OpRecord resize_augmentation = {
    .name = "resize",
    .help = "the whole image at another size, antialiased bilinear",
    .version = 1,
    .params = {{"size", "size", "", "length of the shorter side, or height x width"}},
    .build = build_op<Resize>,
    .traits = {.can_mirror = true}};

}  // namespace dlpipe::augment
