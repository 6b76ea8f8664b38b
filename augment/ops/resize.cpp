// resize(size, interpolation, side): the whole image, antialiased. One number is the length of the shorter side, or the
// longer one; the other follows (rounded down, as torchvision does). HxW is exact and may change the aspect ratio.
#include "dlpipe/augment/resample.h"

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
  explicit Resize(OpArguments& arguments)
      : size_(arguments.size("size", &is_one_side_)),
        interpolation_(parse_interpolation(arguments.text("interpolation"))),
        is_longer_(arguments.text("side") == "longer") {
    if (is_longer_ && !is_one_side_)
      arguments.refuse(
          {ErrorCode::kMisuse, "side=longer is of one length; leave out side, or give one number"});
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
    // How much of it is written the chain asks when it knows (chain_plan.cpp, check_written).
    constexpr int kMostSide = 1 << 24;
    if (draw.out.width > kMostSide || draw.out.height > kMostSide) {
      return Status(ErrorCode::kUnsupported,
                    concat("an image of ", in.width, "x", in.height, " would become ", draw.out.width, "x",
                           draw.out.height, ", more than ", kMostSide, "; give both sides, as HxW"));
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
    .help = "the whole image at another size, antialiased",
    .version = 1,
    .params = {{"size", "size", "", "length of the shorter side, or height x width"},
               resize_interpolation_parameter(),
               {.name = "side",
                .kind = "string",
                .default_value = "shorter",
                .help = "which side one number is of",
                .choices = {"shorter", "longer"},
                .is_late = true}},
    .build = build_op<Resize>,
    .traits = {.can_mirror = true}};

}  // namespace dlpipe::augment
