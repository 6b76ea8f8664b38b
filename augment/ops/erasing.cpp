// Ops that cover parts of the image.
#include <cmath>

#include "augment/copy.h"
#include "augment/kinds.h"
#include "augment/noise.h"
#include "base/portable_math.h"
#include "dlpipe/augment_op.h"

namespace dlpipe::augment {

// cutout(size, fill, p): sets a square to one colour, with its centre uniform over the image, clipped at the borders (DeVries
// and Taylor, "Improved Regularization of Convolutional Neural Networks with Cutout", 2017).
namespace {

class Cutout : public Op {
 public:
  explicit Cutout(OpArguments& arguments) : size_(arguments.size("size")), fill_(arguments, "fill") {}

  Status plan(const ImageSize& in, RandomStream& rng, OpDraw& draw) const override {
    DLPIPE_RETURN_IF_ERROR(fill_.check(in.channels));
    const int y = static_cast<int>(rng.below(static_cast<uint32_t>(in.height))) - size_.height / 2;
    const int x = static_cast<int>(rng.below(static_cast<uint32_t>(in.width))) - size_.width / 2;
    draw.values = {static_cast<float>(x), static_cast<float>(y)};
    return {};
  }

  Status apply(const OpDraw& draw, const ConstImageView& in, const ImageView& out,
               ChainScratch&) const override {
    const int x = static_cast<int>(draw.values[0]);
    copy_image(in, out, draw.mirror);
    const int left = draw.mirror ? out.width - x - size_.width : x;
    fill_region(out, {left, static_cast<int>(draw.values[1]), size_.width, size_.height}, fill_.pixel());
    return {};
  }

 private:
  ImageSize size_;
  Fill fill_;
};

}  // namespace

extern const OpRecord cutout_augmentation = {
    .name = "cutout",
    .help = "set a patch at a random place to one colour",
    .version = 1,
    .params = {{"size", "size", "", "height x width of the patch, or one number for a square"},
               fill_parameter(),
               probability()},
    .build = build_op<Cutout>,
    .traits = {.can_mirror = true}};

// random_erasing(scale, ratio, fill, mode, p): sets a rectangle of random area and aspect ratio to one colour
// or to noise (Zhong et al., "Random Erasing Data Augmentation", 2017; torchvision's RandomErasing). A
// rectangle that does not fit is drawn again, ten times in all; then the image is unchanged.
namespace {

class RandomErasing : public PixelOp {
 public:
  explicit RandomErasing(OpArguments& arguments)
      : scale_(arguments.drawn("scale")),
        ratio_(arguments.drawn("ratio")),
        fill_(arguments, "fill"),
        noise_(arguments.text("mode") == "noise") {}

  Status plan(const ImageSize& in, RandomStream& rng, OpDraw& draw) const override {
    DLPIPE_RETURN_IF_ERROR(fill_.check(in.channels));
    const double area = static_cast<double>(in.width) * in.height;
    const Drawn log_ratio = {portable_log(ratio_.low), portable_log(ratio_.high)};
    for (int attempt = 0; attempt < 10; ++attempt) {
      const double erased = area * scale_.draw(rng);
      const double ratio = portable_exp(log_ratio.draw(rng));
      const double height = std::nearbyint(std::sqrt(erased * ratio));
      const double width = std::nearbyint(std::sqrt(erased / ratio));
      if (width < 1 || height < 1 || width >= in.width || height >= in.height) continue;
      const auto y = rng.below(static_cast<uint32_t>(in.height - static_cast<int>(height) + 1));
      const auto x = rng.below(static_cast<uint32_t>(in.width - static_cast<int>(width) + 1));
      draw.values = {static_cast<float>(x), static_cast<float>(y), static_cast<float>(width),
                     static_cast<float>(height)};
      if (noise_) draw.key = draw_key(rng);
      return {};
    }
    draw.active = false;
    return {};
  }

  Status apply(const OpDraw& draw, const ConstImageView& in, const ImageView& out,
               ChainScratch& scratch) const override {
    copy_image(in, out, false);
    const auto at = [&](size_t i) { return static_cast<int>(draw.values[i]); };
    const Region erased = {at(0) - draw.window.x, at(1) - draw.window.y, at(2), at(3)};
    if (!noise_) {
      fill_region(out, erased, fill_.pixel());
      return {};
    }
    const size_t row = size_t(erased.width) * size_t(out.channels);
    const size_t room = (row + kNoiseBlock) * sizeof(uint16_t);
    if (scratch.rows.size() < room) scratch.rows.resize(room);
    auto* const noise = reinterpret_cast<uint16_t*>(scratch.rows.data());
    const int left = std::max(erased.x, 0);
    const int right = std::min(erased.x + erased.width, out.width);
    for (int y = std::max(erased.y, 0); y < std::min(erased.y + erased.height, out.height); ++y) {
      uniform_row(draw.key, static_cast<uint32_t>(y - erased.y), {noise, row});
      uint8_t* const to = out.row(y);
      for (int i = left * out.channels; i < right * out.channels; ++i)
        to[i] = static_cast<uint8_t>(noise[i - erased.x * out.channels] >> 8);
    }
    return {};
  }

 private:
  Drawn scale_;
  Drawn ratio_;
  Fill fill_;
  bool noise_;
};

}  // namespace

extern const OpRecord random_erasing_augmentation = {
    .name = "random_erasing",
    .help = "set a rectangle of random area and aspect ratio to one colour or noise (RandomErasing)",
    .version = 1,
    .params = {{"scale", "range", "0.02..0.33", "share of the image's area that is erased", 1e-4, 1},
               {"ratio", "range", "0.3..3.3", "height over width of the rectangle", 1e-3, 1e3},
               fill_parameter(),
               {.name = "mode",
                .kind = "string",
                .default_value = "fill",
                .help = "one colour, or random values",
                .choices = {"fill", "noise"}},
               probability("0.5")},
    .build = build_op<RandomErasing>};

// coarse_dropout(holes, height, width, fill): sets several rectangles to one colour (Albumentations' CoarseDropout).
namespace {

class CoarseDropout : public PixelOp {
 public:
  explicit CoarseDropout(OpArguments& arguments)
      : holes_(arguments.drawn("holes")),
        height_(arguments.drawn("height")),
        width_(arguments.drawn("width")),
        fill_(arguments, "fill") {}
  Status plan(const ImageSize& in, RandomStream& rng, OpDraw& draw) const override {
    draw.values[0] = static_cast<float>(holes_.draw_int(rng));
    draw.key = draw_key(rng);
    return fill_.check(in.channels);
  }
  Status apply(const OpDraw& draw, const ConstImageView& in, const ImageView& out,
               ChainScratch&) const override {
    copy_image(in, out, false);
    RandomStream rng(draw.key, 0);
    for (int hole = 0; hole < static_cast<int>(draw.values[0]); ++hole) {
      const int height = std::clamp(static_cast<int>(height_.draw(rng) * draw.in.height), 1, draw.in.height);
      const int width = std::clamp(static_cast<int>(width_.draw(rng) * draw.in.width), 1, draw.in.width);
      const auto y = static_cast<int>(rng.below(static_cast<uint32_t>(draw.in.height - height + 1)));
      const auto x = static_cast<int>(rng.below(static_cast<uint32_t>(draw.in.width - width + 1)));
      fill_region(out, {x - draw.window.x, y - draw.window.y, width, height}, fill_.pixel());
    }
    return {};
  }

 private:
  Drawn holes_;
  Drawn height_;
  Drawn width_;
  Fill fill_;
};

}  // namespace

extern const OpRecord coarse_dropout_augmentation = {
    .name = "coarse_dropout",
    .help = "set several rectangles to one colour (CoarseDropout)",
    .version = 1,
    .params = {{.name = "holes",
                .kind = "ints",
                .default_value = "1..2",
                .help = "how many",
                .low = 0,
                .high = 1000},
               {.name = "height",
                .kind = "drawn",
                .default_value = "0.1..0.2",
                .help = "height of each, as a share of the image's height",
                .low = 0,
                .high = 1},
               {.name = "width",
                .kind = "drawn",
                .default_value = "0.1..0.2",
                .help = "width of each, as a share of the image's width",
                .low = 0,
                .high = 1},
               fill_parameter(),
               probability()},
    .build = build_op<CoarseDropout>};

// grid_mask(size, ratio, fill): sets the squares of a regular grid to one colour (Chen et al., "GridMask Data
// Augmentation", 2020, without its rotation).
namespace {

class GridMask : public PixelOp {
 public:
  explicit GridMask(OpArguments& arguments)
      : size_(arguments.drawn("size")), ratio_(arguments.drawn("ratio")), fill_(arguments, "fill") {}
  Status plan(const ImageSize& in, RandomStream& rng, OpDraw& draw) const override {
    // The grid's unit, the side of its masked square, and where the grid begins.
    const int unit = std::max(static_cast<int>(size_.draw(rng) * std::min(in.width, in.height)), 2);
    const int masked = std::clamp(static_cast<int>(ratio_.draw(rng) * unit), 1, unit - 1);
    draw.values = {static_cast<float>(unit), static_cast<float>(masked),
                   static_cast<float>(rng.below(static_cast<uint32_t>(unit))),
                   static_cast<float>(rng.below(static_cast<uint32_t>(unit)))};
    return fill_.check(in.channels);
  }
  Status apply(const OpDraw& draw, const ConstImageView& in, const ImageView& out,
               ChainScratch&) const override {
    copy_image(in, out, false);
    const auto at = [&](size_t i) { return static_cast<int>(draw.values[i]); };
    const int unit = at(0);
    for (int y = at(3) - unit; y < draw.in.height; y += unit) {
      for (int x = at(2) - unit; x < draw.in.width; x += unit)
        fill_region(out, {x - draw.window.x, y - draw.window.y, at(1), at(1)}, fill_.pixel());
    }
    return {};
  }

 private:
  Drawn size_;
  Drawn ratio_;
  Fill fill_;
};

}  // namespace

extern const OpRecord grid_mask_augmentation = {
    .name = "grid_mask",
    .help = "set squares of a regular grid to one colour (GridMask)",
    .version = 1,
    .params = {{.name = "size",
                .kind = "drawn",
                .default_value = "0.1..0.4",
                .help = "size of a grid unit, as a share of the shorter side",
                .low = 0.001,
                .high = 1},
               {.name = "ratio",
                .kind = "drawn",
                .default_value = "0.5",
                .help = "share of a unit's side that is masked",
                .low = 0.01,
                .high = 0.99},
               fill_parameter(),
               probability()},
    .build = build_op<GridMask>};

}  // namespace dlpipe::augment
