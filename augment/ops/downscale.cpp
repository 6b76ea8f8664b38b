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
    const ResizeGeometry smaller = there(draw);
    const ptrdiff_t stride = ptrdiff_t{smaller.out_width} * in.channels;
    scratch.rows.resize(std::max(scratch.rows.size(), static_cast<size_t>(stride * smaller.out_height)));
    const ImageView small{reinterpret_cast<uint8_t*>(scratch.rows.data()), smaller.out_width,
                          smaller.out_height, in.channels, stride};
    resample(interpolation_, smaller, in, small, false, scratch.work);
    resample(interpolation_, back(smaller), small, out, false, scratch.work);
    return {};
  }
  size_t scratch_bytes(const OpDraw& draw, int channels) const override {
    const ResizeGeometry smaller = there(draw);
    const auto pixels = static_cast<size_t>(smaller.out_width) * static_cast<size_t>(smaller.out_height);
    // The second resize may let the first one's memory grow, to twice as much at most: no more than both.
    return pixels * static_cast<size_t>(channels) + resample_work_bytes(interpolation_, smaller, channels) +
           resample_work_bytes(interpolation_, back(smaller), channels);
  }

 private:
  static ResizeGeometry there(const OpDraw& draw) {
    const auto side = [&](int of) {
      return std::max(static_cast<int>(static_cast<float>(of) * draw.values[0]), 1);
    };
    return whole_resize(draw.in.width, draw.in.height, side(draw.in.width), side(draw.in.height));
  }
  static ResizeGeometry back(const ResizeGeometry& g) {
    return whole_resize(g.out_width, g.out_height, g.source_width, g.source_height);
  }

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
