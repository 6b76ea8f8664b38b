// safe_crop(erosion, p): a crop that holds all boxes (Albumentations' BBoxSafeRandomCrop and, with a resize behind it, its
// RandomSizedBBoxSafeCrop).
//
// Every side lies at a place drawn evenly between the picture's and that of the rectangle around all boxes. Of several boxes
// that rectangle is first made smaller by `erosion`, so that those at its edge may be cut off. The right and lower side are
// rounded up where Albumentations cuts a part of a pixel off a box. A picture without boxes, or of which nothing is left, gives
// a crop of its own shape, of 1 - erosion to 1 of its height.
#include <algorithm>
#include <cmath>

#include "dlpipe/augment/kinds.h"

namespace dlpipe::augment {

namespace {

constexpr double kNothing = 1e-6;  // of the picture's width or height

class SafeCrop : public CopyingOp<BoxedOp> {
 public:
  explicit SafeCrop(OpArguments& arguments) : erosion_(arguments.number("erosion")) {}

  ImageSize output(const ImageSize& in) const override { return {0, 0, in.channels}; }
  Status plan_around(std::span<const MovedBox> boxes, const ImageSize& in, RandomStream& rng,
                     OpDraw& draw) const override {
    const MovedBox all = around(boxes);
    const bool is_empty =
        all.right - all.left < kNothing * in.width || all.bottom - all.top < kNothing * in.height;
    draw.region = is_empty ? any_crop(in, rng) : crop_around(all, in, rng);
    draw.out = {draw.region.width, draw.region.height, in.channels};
    draw.crop_only = true;
    return {};
  }

 private:
  /// The rectangle that is kept; empty: there is none.
  MovedBox around(std::span<const MovedBox> boxes) const {
    if (boxes.empty()) return {};
    MovedBox all = boxes.front();
    for (const MovedBox& box : boxes) {
      all.left = std::min(all.left, box.left);
      all.top = std::min(all.top, box.top);
      all.right = std::max(all.right, box.right);
      all.bottom = std::max(all.bottom, box.bottom);
    }
    if (boxes.size() == 1) return all;
    const double x = (all.right - all.left) * erosion_ / 2, y = (all.bottom - all.top) * erosion_ / 2;
    return {all.left + x, all.top + y, all.right - x, all.bottom - y};
  }

  static Region crop_around(const MovedBox& all, const ImageSize& in, RandomStream& rng) {
    const auto x = static_cast<int>(all.left * rng.uniform_double());
    const auto y = static_cast<int>(all.top * rng.uniform_double());
    const auto end = [&](double side, int whole) {
      const auto drawn = static_cast<int>(side + (whole - side) * rng.uniform_double());
      return std::max(drawn, static_cast<int>(std::ceil(side)));
    };
    const int right = end(all.right, in.width);
    const int bottom = end(all.bottom, in.height);
    return {x, y, right - x, bottom - y};
  }

  Region any_crop(const ImageSize& in, RandomStream& rng) const {
    const int least = std::clamp(static_cast<int>(in.height * (1 - erosion_)), 1, in.height);
    Region crop;
    crop.height = least == in.height ? least : Drawn{double(least), double(in.height)}.draw_int(rng);
    crop.width = std::max(1, static_cast<int>(int64_t{crop.height} * in.width / in.height));
    crop.y = static_cast<int>((in.height - crop.height + 1) * rng.uniform_double());
    crop.x = static_cast<int>((in.width - crop.width + 1) * rng.uniform_double());
    return crop;
  }

  double erosion_;
};

}  // namespace

extern const OpRecord safe_crop_augmentation = {
    .name = "safe_crop",
    .help = "a crop with all boxes in it (BBoxSafeRandomCrop)",
    .version = 1,
    .params = {{"erosion", "float", "0",
                "share of the width and height of the rectangle around all boxes that may be cut off", 0, 1},
               probability()},
    .build = build_op<SafeCrop>};

}  // namespace dlpipe::augment
