// random_erasing(scale, ratio, fill, mode, p): a rectangle of random area and aspect ratio set to one colour or to noise
// (Zhong et al., "Random Erasing Data Augmentation", 2017; torchvision's RandomErasing). A rectangle that doesn't fit is
// drawn again, ten times in all; then the picture stays.
#include <cmath>

#include "dlpipe/augment/fill.h"
#include "dlpipe/augment/kinds.h"
#include "dlpipe/augment/noise.h"
#include "dlpipe/base/portable_math.h"

namespace dlpipe::augment {

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
    .help = "a rectangle of random area and aspect ratio set to one colour or to noise (RandomErasing)",
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

}  // namespace dlpipe::augment
