// mosaic(size, center, fill, p): four pictures around a drawn point, as YOLO's training does it (Bochkovskiy et al., "YOLOv4:
// Optimal Speed and Accuracy of Object Detection", 2020; the arithmetic is that of Ultralytics' Mosaic with n = 4).
//
// The output is 2 size x 2 size. The sample's own picture touches the point with its lower right corner, the others stand to
// the right of it, below it and opposite; what reaches over an edge is cut off, what none covers is `fill`. Pictures come as
// the ops before it leave them: YOLO's are `resize(640,side=longer) mosaic(640)`, then an affine and a crop to 640.
#include <algorithm>
#include <array>
#include <cmath>

#include "dlpipe/augment/fill.h"
#include "dlpipe/augment/join.h"
#include "dlpipe/augment/value.h"

namespace dlpipe::augment {

namespace {

/// `length` pixels that end or begin at `center` of a canvas of `whole`: how many are seen.
int seen(bool ends_there, int center, int whole, int length) {
  return std::max(0, std::min(length, ends_there ? center : whole - center));
}

class Mosaic : public JoinOp {
 public:
  explicit Mosaic(OpArguments& arguments)
      : size_(arguments.integer("size")), center_(arguments.drawn("center")), fill_(arguments, "fill") {}

  int others() const override { return 3; }
  ImageSize output(const ImageSize& in) const override { return {2 * size_, 2 * size_, in.channels}; }
  Pixel background() const override { return fill_.pixel(); }

  Status place(std::span<const ImageSize> sizes, RandomStream& rng, OpDraw& draw,
               std::span<JoinedPart> parts) const override {
    DLPIPE_RETURN_IF_ERROR(fill_.check(draw.out.channels));
    const int whole = 2 * size_;
    const auto drawn = [&] { return std::clamp(static_cast<int>(center_.draw(rng) * whole), 0, whole); };
    const int x = drawn(), y = drawn();
    draw.values = {static_cast<float>(x), static_cast<float>(y)};
    for (size_t i = 0; i < parts.size(); ++i) {
      const bool is_left = i % 2 == 0, is_above = i < 2;
      JoinedPart& part = parts[i];
      part.from.width = seen(is_left, x, whole, sizes[i].width);
      part.from.height = seen(is_above, y, whole, sizes[i].height);
      part.from.x = is_left ? sizes[i].width - part.from.width : 0;
      part.from.y = is_above ? sizes[i].height - part.from.height : 0;
      part.x = is_left ? x - part.from.width : x;
      part.y = is_above ? y - part.from.height : y;
    }
    return {};
  }

 private:
  int size_;
  Drawn center_;
  Fill fill_;
};

}  // namespace

extern const OpRecord mosaic_augmentation = {
    .name = "mosaic",
    .help = "four pictures of the dataset around a point (YOLO's): twice size wide and high",
    .version = 1,
    .params = {{.name = "size",
                .kind = "int",
                .default_value = "",
                .help = "half the width and height of the output, in pixels",
                .low = 1,
                .high = 8192},
               {.name = "center",
                .kind = "drawn",
                .default_value = "0.25..0.75",
                .help = "where the pictures meet, a share of the output; drawn for x and y",
                .low = 0,
                .high = 1},
               fill_parameter("114"),
               probability()},
    .build = build_op<Mosaic>};

}  // namespace dlpipe::augment
