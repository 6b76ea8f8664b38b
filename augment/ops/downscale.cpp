// downscale(scale, interpolation): made smaller and large again, which loses what is fine (Albumentations' Downscale).
#include "dlpipe/augment/kinds.h"
#include "dlpipe/augment/resample.h"

namespace dlpipe::augment {

namespace {

class Downscale : public Op {
 public:
  explicit Downscale(OpArguments& arguments)
      : scale_(arguments.drawn("scale")),
        interpolation_(parse_interpolation(arguments.text("interpolation"))) {}
  Status plan(const ImageSize&, RandomStream& rng, OpDraw& draw) const override {
    draw.values[0] = static_cast<float>(scale_.draw(rng));
    return {};
  }
  Status apply(const OpDraw& draw, const ConstImageView& in, const ImageView& out,
               ChainScratch& scratch) const override {
    const int width = std::max(static_cast<int>(static_cast<float>(in.width) * draw.values[0]), 1);
    const int height = std::max(static_cast<int>(static_cast<float>(in.height) * draw.values[0]), 1);
    const ptrdiff_t stride = ptrdiff_t{width} * in.channels;
    scratch.rows.resize(std::max(scratch.rows.size(), static_cast<size_t>(stride * height)));
    const ImageView small{reinterpret_cast<uint8_t*>(scratch.rows.data()), width, height, in.channels,
                          stride};
    resample(interpolation_, whole_resize(in.width, in.height, width, height), in, small, false,
             scratch.work);
    resample(interpolation_, whole_resize(width, height, in.width, in.height), small, out, false,
             scratch.work);
    return {};
  }

 private:
  Drawn scale_;
  Interpolation interpolation_;
};

}  // namespace

extern const OpRecord downscale_augmentation = {
    .name = "downscale",
    .help = "made smaller and large again (Downscale)",
    .version = 1,
    .params = {{.name = "scale",
                .kind = "drawn",
                .default_value = "0.25..0.5",
                .help = "of the small picture",
                .low = 0.01,
                .high = 1},
               {.name = "interpolation",
                .kind = "string",
                .default_value = "nearest",
                .help = "the filter, Pillow's",
                .choices = {"nearest", "area", "bilinear", "bicubic", "lanczos"}},
               probability()},
    .build = build_op<Downscale>};

}  // namespace dlpipe::augment
