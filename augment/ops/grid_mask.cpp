// grid_mask(size, ratio, fill): squares of a regular grid set to one colour (Chen et al., "GridMask Data Augmentation", 2020,
// without its rotation).
#include "dlpipe/augment/fill.h"
#include "dlpipe/augment/kinds.h"

namespace dlpipe::augment {

namespace {

class GridMask : public PixelOp {
 public:
  explicit GridMask(OpArguments& arguments)
      : size_(arguments.drawn("size")), ratio_(arguments.drawn("ratio")), fill_(arguments, "fill") {}
  Status plan(const ImageSize& in, RandomStream& rng, OpDraw& draw) const override {
    // A unit of the grid, the masked square in it, and where the grid begins.
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
    .help = "squares of a regular grid set to one colour (GridMask)",
    .version = 1,
    .params = {{.name = "size",
                .kind = "drawn",
                .default_value = "0.1..0.4",
                .help = "of a unit of the grid, a share of the shorter side",
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
