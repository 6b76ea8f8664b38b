// Ops for detection and segmentation: crops that depend on the image's boxes, dropping boxes, and joining several images.
#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "augment/kinds.h"
#include "dlpipe/augment_op.h"

namespace dlpipe::augment {

// safe_crop(erosion, p): a crop that contains all boxes (Albumentations' BBoxSafeRandomCrop and, followed by a resize, its
// RandomSizedBBoxSafeCrop).
//
// Each side of the crop is drawn uniformly between the image's side and that of the rectangle around all boxes.
// With several boxes, that rectangle is first made smaller by `erosion`, so that boxes at its edge may be cut off.
// The right and lower sides are rounded up where Albumentations cuts a part of a pixel off a box. If there are no
// boxes or the rectangle becomes empty, the crop has the image's shape, with 1 - erosion to 1 of its height.
namespace {

constexpr double kNothing = 1e-6;  // of the image's width or height

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
  /// The rectangle to keep; empty: there is none.
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
    .help = "a crop that contains all boxes (BBoxSafeRandomCrop)",
    .version = 1,
    .params = {{"erosion", "float", "0",
                "share of the width and height of the rectangle around all boxes that may be cut off", 0, 1},
               probability()},
    .build = build_op<SafeCrop>};

// ssd_crop(scale, ratio, overlaps, trials, p): the crop of SSD's training (Liu et al., "SSD: Single Shot MultiBox Detector",
// 2016), as torchvision's RandomIoUCrop draws it, number for number.
//
// One of `overlaps` is drawn; 1 leaves the image unchanged. Otherwise crops are drawn, at most `trials` times, until one
// contains the centre of a box and has at least the drawn overlap with that box (intersection over union). If none does,
// another of `overlaps` is drawn. Boxes with a centre outside of the crop are dropped. An image without boxes is unchanged.
namespace {

// torchvision draws until a crop fits or 1 is drawn. Here the image is left unchanged after this many rounds.
constexpr int kMostRounds = 100;

bool holds_middle(const Region& crop, const MovedBox& box) {
  const double x = (box.left + box.right) / 2, y = (box.top + box.bottom) / 2;
  return crop.x < x && x < crop.x + crop.width && crop.y < y && y < crop.y + crop.height;
}

double overlap(const Region& crop, const MovedBox& box) {
  const double width = std::min<double>(box.right, crop.x + crop.width) - std::max<double>(box.left, crop.x);
  const double height =
      std::min<double>(box.bottom, crop.y + crop.height) - std::max<double>(box.top, crop.y);
  const double both = std::max(width, 0.0) * std::max(height, 0.0);
  return both / (box.area() + static_cast<double>(crop.width) * crop.height - both);
}

class SsdCrop : public CopyingOp<BoxedOp>, public BoxJudge {
 public:
  explicit SsdCrop(OpArguments& arguments)
      : scale_(arguments.drawn("scale")),
        ratio_(arguments.drawn("ratio")),
        overlaps_(arguments.numbers("overlaps")),
        trials_(arguments.integer("trials")) {}

  ImageSize output(const ImageSize& in) const override { return {0, 0, in.channels}; }
  Status plan_around(std::span<const MovedBox> boxes, const ImageSize& in, RandomStream& rng,
                     OpDraw& draw) const override {
    draw.active = false;
    draw.crop_only = true;
    Region crop;
    for (int round = 0; round < kMostRounds && !boxes.empty(); ++round) {
      const double least = overlaps_[rng.below(static_cast<uint32_t>(overlaps_.size()))];
      if (least >= 1) return {};
      for (int trial = 0; trial < trials_; ++trial) {
        if (!draw_crop(in, rng, crop)) continue;
        const auto fits = [&](const MovedBox& box) {
          return holds_middle(crop, box) && overlap(crop, box) >= least;
        };
        if (std::none_of(boxes.begin(), boxes.end(), fits)) continue;
        draw.region = crop;
        draw.out = {crop.width, crop.height, in.channels};
        draw.values[0] = static_cast<float>(least);
        draw.active = true;
        return {};
      }
    }
    return {};
  }
  bool keeps(const OpDraw& draw, const MovedBox& box) const override {
    return box.middle.x > 0 && box.middle.x < draw.out.width && box.middle.y > 0 &&
           box.middle.y < draw.out.height;
  }

 private:
  /// In torchvision's precision, which determines the truncated numbers.
  bool draw_crop(const ImageSize& in, RandomStream& rng, Region& crop) const {
    const auto low = static_cast<float>(scale_.low), more = static_cast<float>(scale_.high - scale_.low);
    const float across = low + more * rng.uniform(), down = low + more * rng.uniform();
    crop.width = static_cast<int>(static_cast<float>(in.width) * across);
    crop.height = static_cast<int>(static_cast<float>(in.height) * down);
    if (crop.width < 1 || crop.height < 1) return false;
    const double ratio = static_cast<double>(crop.width) / crop.height;
    if (ratio < ratio_.low || ratio > ratio_.high) return false;
    crop.x = static_cast<int>(static_cast<float>(in.width - crop.width) * rng.uniform());
    crop.y = static_cast<int>(static_cast<float>(in.height - crop.height) * rng.uniform());
    return true;
  }

  Drawn scale_;
  Drawn ratio_;
  std::vector<double> overlaps_;
  int trials_;
};

}  // namespace

extern const OpRecord ssd_crop_augmentation = {
    .name = "ssd_crop",
    .help = "a crop that contains the centre of a box; others are dropped (SSD's, RandomIoUCrop)",
    .version = 1,
    .params = {{.name = "scale",
                .kind = "range",
                .default_value = "0.3..1",
                .help = "share of the width and of the height, drawn separately",
                .low = 0.001,
                .high = 1},
               {.name = "ratio",
                .kind = "range",
                .default_value = "0.5..2",
                .help = "allowed width / height of the crop, in pixels",
                .low = 0.001,
                .high = 1000},
               {.name = "overlaps",
                .kind = "list",
                .default_value = "0:0.1:0.3:0.5:0.7:0.9:1",
                .help = "minimum IoU of crop and box, drawn from these values; 1: no crop",
                .low = 0,
                .high = 1},
               {.name = "trials",
                .kind = "int",
                .default_value = "40",
                .help = "crops tried before another value of overlaps is drawn",
                .low = 1,
                .high = 1000},
               probability()},
    .build = build_op<SsdCrop>};

// drop_boxes(share, side, area): drops boxes that have too little left in the image at this place of the chain, or are
// too small here (Albumentations' min_visibility and min_area; torchvision's SanitizeBoundingBoxes). Pixels don't change.
namespace {

class DropBoxes : public CopyingOp<Op>, public BoxJudge {
 public:
  explicit DropBoxes(OpArguments& arguments)
      : share_(arguments.number("share")), side_(arguments.number("side")), area_(arguments.number("area")) {}
  Status plan(const ImageSize&, RandomStream&, OpDraw& draw) const override {
    draw.crop_only = true;
    return {};
  }
  bool keeps(const OpDraw&, const MovedBox& box) const override {
    const double side = std::min(box.right - box.left, box.bottom - box.top);
    return box.share >= share_ && side >= side_ && box.area() >= area_;
  }

 private:
  double share_;
  double side_;
  double area_;
};

}  // namespace

extern const OpRecord drop_boxes_augmentation = {
    .name = "drop_boxes",
    .help = "drop boxes that are cut off or small; pixels are unchanged (SanitizeBoundingBoxes)",
    .version = 1,
    .params = {{"share", "float", "0", "share of a moved box's area that must be in the image", 0, 1},
               {.name = "side",
                .kind = "float",
                .default_value = "0",
                .help = "minimum width and height of a box",
                .low = 0,
                .high = 65536,
                .unit = "pixels"},
               {.name = "area",
                .kind = "float",
                .default_value = "0",
                .help = "minimum area of a box",
                .low = 0,
                .high = 4e9,
                .unit = "pixels"}},
    .build = build_op<DropBoxes>};

// mosaic(size, center, fill, p): four images around a drawn point, as YOLO's training does it (Bochkovskiy et al., "YOLOv4:
// Optimal Speed and Accuracy of Object Detection", 2020; the arithmetic is that of Ultralytics' Mosaic with n = 4).
//
// The output is 2 size x 2 size. The sample's own image touches the point with its lower right corner, the others are to the
// right of it, below it and diagonally opposite; parts beyond an edge are clipped, uncovered pixels are `fill`. Images are the
// output of the ops before it: YOLO's are `resize(640,side=longer) mosaic(640)`, then an affine and a crop to 640.
namespace {

/// How many of `length` pixels that end or begin at `center` are visible on a canvas of size `whole`.
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
    .help = "four images of the dataset around a point (YOLO's); the result is twice size wide and high",
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
                .help = "where the images meet, as a share of the output; drawn for x and y",
                .low = 0,
                .high = 1},
               fill_parameter("114"),
               probability()},
    .build = build_op<Mosaic>};

// copy_paste(share, seen, p): objects of another image of the dataset, cut out by its mask and pasted onto this one at the same
// place (Ghiasi et al., "Simple Copy-Paste is a Strong Data Augmentation Method for Instance Segmentation", 2021).
//
// The ops before it are run for both images; the paper's are a large jitter of scale, a crop and a flip. Every object of the
// other image is pasted with probability `share`. This image's objects with less than `seen` left are dropped. The output has
// this image's size. chain_link.h has the rules; edges are not blurred, which the paper found to work as well.
namespace {

class CopyPaste : public PasteOp {
 public:
  explicit CopyPaste(OpArguments& arguments)
      : share_(arguments.number("share")), seen_(arguments.number("seen")) {}
  void choose(RandomStream& rng, std::span<uint8_t> chosen) const override {
    for (uint8_t& one : chosen) one = rng.uniform_double() < share_ ? 1 : 0;
  }
  double least_seen() const override { return seen_; }

 private:
  double share_;
  double seen_;
};

}  // namespace

extern const OpRecord copy_paste_augmentation = {
    .name = "copy_paste",
    .help = "paste objects of another image, cut out by its mask (simple copy-paste)",
    .version = 1,
    .params = {{"share", "float", "0.5", "probability that each object of the other image is pasted", 0, 1},
               {"seen", "float", "0.1", "an object with a smaller share of its pixels visible is dropped", 0,
                1},
               probability()},
    .build = build_op<CopyPaste>};

}  // namespace dlpipe::augment
