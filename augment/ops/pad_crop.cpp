// pad_crop(size, pad, mode): a crop at a random place of the image widened by `pad` on every side
// (torchvision's RandomCrop(size, padding=pad)). mode zero frames with zeros; reflect mirrors the image at
// its border without repeating the border's own pixel.
#include <algorithm>
#include <cstring>

#include "dlpipe/augment/copy.h"
#include "dlpipe/augment/framed_movement.h"
#include "dlpipe/augment/op.h"
#include "dlpipe/base/text.h"

namespace dlpipe::augment {

namespace {

/// The pixels [begin, end) that a crop of `crop` at `at` reads: clipped, or all that its reflections need.
void span_read(int at, int crop, int size, bool reflect, int* begin, int* length) {
  int low = std::max(at, 0);
  int high = std::min(at + crop, size);
  if (reflect && at < 0) {
    low = 0;
    high = std::max(high, reflected(at, size) + 1);
  }
  if (reflect && at + crop > size) {
    high = size;
    low = std::min(low, reflected(at + crop - 1, size));
  }
  *begin = low;
  *length = high - low;
}

class PadCrop : public Op {
 public:
  explicit PadCrop(OpArguments& arguments)
      : width_(arguments.size("size").width),
        height_(arguments.size("size").height),
        pad_(arguments.integer("pad")),
        reflect_(arguments.text("mode") == "reflect") {
    if (pad_ >= std::min(width_, height_))
      arguments.refuse({ErrorCode::kMisuse, concat("pad must be less than the size, got ", pad_)});
  }

  ImageSize output(const ImageSize& in) const override { return {width_, height_, in.channels}; }

  Status plan(const ImageSize& in, RandomStream& rng, OpDraw& draw) const override {
    const int free_x = in.width + 2 * pad_ - width_;
    const int free_y = in.height + 2 * pad_ - height_;
    if (free_x < 0 || free_y < 0) {
      return Status(ErrorCode::kUnsupported,
                    concat("an image of ", in.width, "x", in.height, " padded by ", pad_,
                           " is smaller than the crop of ", width_, "x", height_,
                           " (width x height); put a resize before it or pad more"));
    }
    if (reflect_ && (pad_ >= in.width || pad_ >= in.height)) {
      return Status(ErrorCode::kUnsupported,
                    concat("an image of ", in.width, "x", in.height, " can't be reflected over ", pad_,
                           " pixels; use mode=zero or put a resize before it"));
    }
    const int y = static_cast<int>(rng.below(static_cast<uint32_t>(free_y + 1))) - pad_;
    const int x = static_cast<int>(rng.below(static_cast<uint32_t>(free_x + 1))) - pad_;
    span_read(x, width_, in.width, reflect_, &draw.region.x, &draw.region.width);
    span_read(y, height_, in.height, reflect_, &draw.region.y, &draw.region.height);
    draw.values = {static_cast<float>(x), static_cast<float>(y)};
    draw.crop_only = x >= 0 && y >= 0 && x + width_ <= in.width && y + height_ <= in.height;
    return {};
  }

  Status apply(const OpDraw& draw, const ConstImageView& in, const ImageView& out,
               ChainScratch&) const override {
    const int x = static_cast<int>(draw.values[0]);
    const int y = static_cast<int>(draw.values[1]);
    place_image(in, draw.region.x - x, draw.region.y - y, Pixel{}, out, draw.mirror);
    if (reflect_) reflect_borders(draw, in, x, y, out);
    return {};
  }
  Movement movement(const OpDraw& draw) const override {
    const double x = draw.values[0];
    const double y = draw.values[1];
    if (!reflect_) return Movement::shifted(x, y);
    return Movement(std::make_shared<const FramedMovement>(-x, -y, draw.in, true));
  }

 private:
  /// Writes what place_image left as frame.
  static void reflect_borders(const OpDraw& draw, const ConstImageView& in, int x, int y,
                              const ImageView& out) {
    const int left = std::clamp(-x, 0, out.width);  // columns of the image: [left, right)
    const int right = std::clamp(draw.in.width - x, left, out.width);
    for (int row = 0; row < out.height; ++row) {
      const int seen_y = row + y;
      const uint8_t* from = in.row(reflected(seen_y, draw.in.height) - draw.region.y);
      const bool row_inside = seen_y >= 0 && seen_y < draw.in.height;
      for (int column = 0; column < out.width; ++column) {
        if (row_inside && column == left) column = right;
        if (column == out.width) break;
        const int to = draw.mirror ? out.width - 1 - column : column;
        const int from_x = reflected(column + x, draw.in.width) - draw.region.x;
        std::memcpy(out.row(row) + ptrdiff_t{to} * out.channels, from + ptrdiff_t{from_x} * out.channels,
                    size_t(out.channels));
      }
    }
  }

  int width_;
  int height_;
  int pad_;
  bool reflect_;
};

}  // namespace

extern const OpRecord pad_crop_augmentation = {
    .name = "pad_crop",
    .help = "a crop at a random place of the image widened on every side",
    .version = 1,
    .params = {{"size", "size", "", "height x width of the result, or one number for a square"},
               {.name = "pad",
                .kind = "int",
                .default_value = "",
                .help = "added on every side",
                .low = 0,
                .unit = "pixels"},
               {.name = "mode",
                .kind = "string",
                .default_value = "zero",
                .help = "what is added",
                .choices = {"zero", "reflect"}}},
    .build = build_op<PadCrop>,
    .traits = {.can_mirror = true}};

}  // namespace dlpipe::augment
