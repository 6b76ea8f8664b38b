// Padding: the image with a frame around it, and crops of that.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "augment/copy.h"
#include "augment/kinds.h"
#include "base/text.h"
#include "dlpipe/augment_op.h"

namespace dlpipe::augment {

namespace {

/// The image is at (left, top) of the output.
class FramedMovement final : public FreeMovement {
 public:
  FramedMovement(double left, double top, const ImageSize& in, bool reflects)
      : left_(left), top_(top), in_(in), reflects_(reflects) {}
  Place source(Place out) const override {
    return {seen(out.x - left_, in_.width), seen(out.y - top_, in_.height)};
  }
  Place target(Place in) const override { return {in.x + left_, in.y + top_}; }

 private:
  /// The coordinate, mirrored at the centres of the border's pixels, so that these are not repeated.
  double seen(double at, int size) const {
    if (at >= 0 && at < size) return at;
    if (!reflects_ || size == 1) return std::clamp(at, 0.5, size - 0.5);
    const double last = size - 0.5;
    while (at < 0 || at >= size) at = at < 0 ? 1 - at : 2 * last - at;
    return at;
  }

  double left_;
  double top_;
  ImageSize in_;
  bool reflects_;
};

OpParam border_parameter() {
  return {
      .name = "mode",
      .kind = "string",
      .default_value = "constant",
      .help = "what is added: fill, the border's pixels, or the image mirrored without repeating its border",
      .choices = {"constant", "edge", "reflect"}};
}

/// plan() sets draw.out, and draw.values to the image's left and top in the output.
class BorderOp : public Op {
 public:
  Status apply(const OpDraw& draw, const ConstImageView& in, const ImageView& out,
               ChainScratch&) const override {
    const int left = static_cast<int>(draw.values[0]);
    const int top = static_cast<int>(draw.values[1]);
    if (mode_ == "constant") {
      place_image(in, left, top, fill_.pixel(), out, draw.mirror);
      return {};
    }
    const ptrdiff_t channels = out.channels;
    for (int y = 0; y < out.height; ++y) {
      const uint8_t* const from = in.row(seen(y - top, in.height));
      for (int x = 0; x < out.width; ++x) {
        const int to = draw.mirror ? out.width - 1 - x : x;
        std::memcpy(out.row(y) + to * channels, from + seen(x - left, in.width) * channels, size_t(channels));
      }
    }
    return {};
  }

  Movement movement(const OpDraw& draw) const override {
    const double left = draw.values[0];
    const double top = draw.values[1];
    if (mode_ == "constant") return Movement::shifted(-left, -top);
    return Movement(std::make_shared<const FramedMovement>(left, top, draw.in, mode_ == "reflect"));
  }

 protected:
  explicit BorderOp(OpArguments& arguments) : mode_(arguments.text("mode")), fill_(arguments, "fill") {}
  Status check(const ImageSize& in) const { return fill_.check(in.channels); }

 private:
  int seen(int i, int size) const {
    if (mode_ == "edge") return std::clamp(i, 0, size - 1);
    return reflected(i, size);
  }

  std::string mode_;
  Fill fill_;
};

}  // namespace

// pad(pixels, mode, fill): adds a frame on every side (torchvision's Pad).
namespace {

class Pad : public BorderOp {
 public:
  explicit Pad(OpArguments& arguments) : BorderOp(arguments), sides_(arguments.numbers("pixels")) {
    if (sides_.size() == 1) sides_ = {sides_[0], sides_[0], sides_[0], sides_[0]};
    if (sides_.size() == 2) sides_ = {sides_[0], sides_[1], sides_[0], sides_[1]};
    for (const double side : sides_) {
      if (sides_.size() == 4 && side == static_cast<int>(side)) continue;
      arguments.refuse({ErrorCode::kMisuse,
                        "pixels must be one whole number, horizontal:vertical or left:top:right:bottom"});
    }
    sides_.resize(4);
  }
  ImageSize output(const ImageSize& in) const override {
    if (in.width <= 0 || in.height <= 0) return in;
    return {in.width + side(0) + side(2), in.height + side(1) + side(3), in.channels};
  }
  Status plan(const ImageSize& in, RandomStream&, OpDraw& draw) const override {
    draw.values = {static_cast<float>(side(0)), static_cast<float>(side(1))};
    return check(in);
  }

 private:
  int side(size_t i) const { return static_cast<int>(sides_[i]); }

  std::vector<double> sides_;  // left, top, right, bottom
};

}  // namespace

extern const OpRecord pad_augmentation = {
    .name = "pad",
    .help = "pad on each side (Pad)",
    .version = 1,
    .params = {{.name = "pixels",
                .kind = "list",
                .default_value = "",
                .help = "on each side, or horizontal:vertical, or left:top:right:bottom",
                .low = 0,
                .high = 4096,
                .unit = "pixels"},
               border_parameter(),
               fill_parameter(),
               probability()},
    .build = build_op<Pad>,
    .traits = {.can_mirror = true}};

// pad_to(size, mode, fill): pads to at least a size, with the image in the middle (Albumentations'
// PadIfNeeded; after resize(SIZE, side=longer) it makes a letterbox).
namespace {

class PadTo : public BorderOp {
 public:
  explicit PadTo(OpArguments& arguments) : BorderOp(arguments), size_(arguments.size("size")) {}
  ImageSize output(const ImageSize& in) const override {
    if (in.width <= 0 || in.height <= 0) return in;
    return {std::max(in.width, size_.width), std::max(in.height, size_.height), in.channels};
  }
  Status plan(const ImageSize& in, RandomStream&, OpDraw& draw) const override {
    draw.active = draw.out != in;
    const int left = (draw.out.width - in.width) / 2, top = (draw.out.height - in.height) / 2;
    draw.values = {static_cast<float>(left), static_cast<float>(top)};
    return check(in);
  }

 private:
  ImageSize size_;
};

}  // namespace

extern const OpRecord pad_to_augmentation = {
    .name = "pad_to",
    .help = "pad to at least a size, the image in the middle (PadIfNeeded)",
    .version = 1,
    .params = {{"size", "size", "", "height x width, or one number for both"},
               border_parameter(),
               fill_parameter(),
               probability()},
    .build = build_op<PadTo>,
    .traits = {.can_mirror = true}};

// pad_crop(size, pad, mode): pads the image by `pad` on every side and crops at a random place (torchvision's
// RandomCrop(size, padding=pad)). Mode zero pads with zeros; reflect mirrors the image at its border without
// repeating the border pixels.
namespace {

/// The pixels [begin, begin + length) that a crop of `crop` at `at` reads: clipped, or all that its reflections need.
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
  /// Writes the frame, which place_image left out.
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
    .help = "pad on each side, then crop at a random place",
    .version = 1,
    .params = {{"size", "size", "", "height x width of the result, or one number for a square"},
               {.name = "pad",
                .kind = "int",
                .default_value = "",
                .help = "added on each side",
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
