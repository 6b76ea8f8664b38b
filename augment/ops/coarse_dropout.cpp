// coarse_dropout(holes, height, width, fill): several rectangles set to one colour (Albumentations' CoarseDropout).
#include "dlpipe/augment/fill.h"
#include "dlpipe/augment/kinds.h"
#include "dlpipe/augment/noise.h"

namespace dlpipe::augment {

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
    .help = "several rectangles set to one colour (CoarseDropout)",
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
                .help = "of each, as a share of the picture's",
                .low = 0,
                .high = 1},
               {.name = "width",
                .kind = "drawn",
                .default_value = "0.1..0.2",
                .help = "of each, as a share of the picture's",
                .low = 0,
                .high = 1},
               fill_parameter(),
               probability()},
    .build = build_op<CoarseDropout>};

}  // namespace dlpipe::augment
