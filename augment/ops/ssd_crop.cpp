// ssd_crop(scale, ratio, overlaps, trials, p): the crop of SSD's training (Liu et al., "SSD: Single Shot MultiBox Detector",
// 2016), as torchvision's RandomIoUCrop draws it, number for number.
//
// One of `overlaps` is drawn; 1 leaves the picture as it is. Else crops are drawn, `trials` times at most, until one holds the
// middle of a box whose overlap with the crop (their intersection over their union) is at least that; if none does, another of
// `overlaps` is drawn. Boxes whose middle isn't in the crop are dropped. A picture without boxes stays as it is.
#include <algorithm>
#include <vector>

#include "dlpipe/augment/kinds.h"

namespace dlpipe::augment {

namespace {

// torchvision draws until a crop fits or 1 is drawn; here a picture that nothing fits stays as it is in the end.
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
  /// In torchvision's precision, which decides what numbers are cut off to.
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
    .help = "a crop with the middle of a box in it, other boxes dropped (SSD's, RandomIoUCrop)",
    .version = 1,
    .params = {{.name = "scale",
                .kind = "range",
                .default_value = "0.3..1",
                .help = "of width and of height, each drawn",
                .low = 0.001,
                .high = 1},
               {.name = "ratio",
                .kind = "range",
                .default_value = "0.5..2",
                .help = "width / height that the crop may have, in pixels",
                .low = 0.001,
                .high = 1000},
               {.name = "overlaps",
                .kind = "list",
                .default_value = "0:0.1:0.3:0.5:0.7:0.9:1",
                .help = "least intersection / union of crop and box, one of these is drawn; 1: no crop",
                .low = 0,
                .high = 1},
               {.name = "trials",
                .kind = "int",
                .default_value = "40",
                .help = "crops that are tried before another of overlaps is drawn",
                .low = 1,
                .high = 1000},
               probability()},
    .build = build_op<SsdCrop>};

}  // namespace dlpipe::augment
