// sharpness(factor): every pixel's distance from its smoothed neighbourhood times a factor (PIL.ImageEnhance.Sharpness:
// smoothed with 3x3 weights 1, in the middle 5, of 13; the picture's border stays).
#include "dlpipe/augment/kinds.h"

namespace dlpipe::augment {

namespace {

class Sharpness : public NeighbourhoodOp {
 public:
  explicit Sharpness(OpArguments& arguments) : factor_(arguments.drawn("factor")) {}
  Status plan(const ImageSize&, RandomStream& rng, OpDraw& draw) const override {
    draw.values[0] = static_cast<float>(factor_.draw(rng));
    return {};
  }
  int reach(const OpDraw&) const override { return 1; }
  Status apply(const OpDraw& draw, const ConstImageView& in, const ImageView& out,
               ChainScratch& scratch) const override {
    const ConstImageView wide = surroundings(draw, in, Border::kReplicate, scratch);
    const ConstImageView middle(wide.row(1) + wide.channels, out.width, out.height, out.channels,
                                wide.stride);
    const size_t row_bytes = size_t(out.width) * size_t(out.channels);
    if (scratch.rows.size() < row_bytes * size_t(out.height))
      scratch.rows.resize(row_bytes * size_t(out.height));
    const ImageView smooth{reinterpret_cast<uint8_t*>(scratch.rows.data()), out.width, out.height,
                           out.channels, static_cast<ptrdiff_t>(row_bytes)};
    convolve3x3(wide, {1, 1, 1, 1, 5, 1, 1, 1, 1}, 13, smooth);
    blend_images(smooth, middle, draw.values[0], out);
    keep_border(draw, middle, out);
    return {};
  }

 private:
  static void keep_border(const OpDraw& draw, const ConstImageView& middle, const ImageView& out) {
    const int right = draw.in.width - 1 - draw.window.x;
    const int bottom = draw.in.height - 1 - draw.window.y;
    const auto keep = [&](int x, int y, int count) {
      std::copy_n(middle.row(y) + ptrdiff_t{x} * out.channels, count * out.channels,
                  out.row(y) + ptrdiff_t{x} * out.channels);
    };
    for (int y = 0; y < out.height; ++y) {
      if (y == -draw.window.y || y == bottom) {
        keep(0, y, out.width);
        continue;
      }
      if (draw.window.x == 0) keep(0, y, 1);
      if (right < out.width) keep(right, y, 1);
    }
  }

  Drawn factor_;
};

}  // namespace

extern const OpRecord sharpness_augmentation = {
    .name = "sharpness",
    .help = "every pixel's distance from its smoothed neighbourhood times a factor (RandomAdjustSharpness)",
    .version = 1,
    .params = {factor_parameter("factor", "0.5", "0 is smoothed, 1 changes nothing"), probability()},
    .build = build_op<Sharpness>};

}  // namespace dlpipe::augment
