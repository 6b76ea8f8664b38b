// Ops that imitate the effects of cameras, lossy compression and small images.
#include <cmath>

#include "augment/jpeg_kernels.h"
#include "augment/kinds.h"
#include "augment/noise.h"
#include "augment/resize.h"

namespace dlpipe::augment {

// gaussian_noise(sigma, mean): adds normally distributed noise to every value, rounded and clipped.
namespace {

class GaussianNoise : public Op {
 public:
  explicit GaussianNoise(OpArguments& arguments)
      : sigma_(arguments.drawn("sigma")), mean_(arguments.drawn("mean")) {}
  Status plan(const ImageSize&, RandomStream& rng, OpDraw& draw) const override {
    draw.values = {static_cast<float>(sigma_.draw(rng)), static_cast<float>(mean_.draw(rng))};
    draw.key = draw_key(rng);
    return {};
  }
  Status apply(const OpDraw& draw, const ConstImageView& in, const ImageView& out,
               ChainScratch& scratch) const override {
    std::array<int, 256> deviation;
    deviation.fill(static_cast<int>(std::floor(static_cast<double>(draw.values[0]) * 255 * 256 + 0.5)));
    const int offset = static_cast<int>(static_cast<double>(draw.values[1]) * 255 * 256);
    add_normal_noise(draw.key, deviation, offset, in, out, scratch.rows);
    return {};
  }

 private:
  Drawn sigma_;
  Drawn mean_;
};

}  // namespace

extern const OpRecord gaussian_noise_augmentation = {
    .name = "gaussian_noise",
    .help = "add normally distributed noise to each value (GaussNoise)",
    .version = 1,
    .params = {{.name = "sigma",
                .kind = "drawn",
                .default_value = "0.1",
                .help = "standard deviation, 1 being the whole range of values",
                .low = 0,
                .high = 1},
               {.name = "mean",
                .kind = "drawn",
                .default_value = "0",
                .help = "mean, 1 being the whole range of values",
                .low = -1,
                .high = 1},
               probability()},
    .build = build_op<GaussianNoise>};

// poisson_noise(photons): the noise of counting light. A value of n photons gets noise with standard
// deviation sqrt(n), normally distributed, which is the limit for many photons.
namespace {

class PoissonNoise : public Op {
 public:
  explicit PoissonNoise(OpArguments& arguments) : photons_(arguments.drawn("photons")) {}
  Status plan(const ImageSize&, RandomStream& rng, OpDraw& draw) const override {
    draw.values[0] = static_cast<float>(photons_.draw(rng));
    draw.key = draw_key(rng);
    return {};
  }
  Status apply(const OpDraw& draw, const ConstImageView& in, const ImageView& out,
               ChainScratch& scratch) const override {
    std::array<int, 256> scale{};  // the standard deviation for each value, 8 bits after the point
    for (size_t v = 0; v < scale.size(); ++v) {
      const double per_value = static_cast<double>(draw.values[0]) / 255;
      scale[v] = static_cast<int>(std::floor(std::sqrt(static_cast<double>(v) / per_value) * 256 + 0.5));
    }
    add_normal_noise(draw.key, scale, 0, in, out, scratch.rows);
    return {};
  }

 private:
  Drawn photons_;
};

}  // namespace

extern const OpRecord poisson_noise_augmentation = {
    .name = "poisson_noise",
    .help = "photon noise, stronger where the image is brighter",
    .version = 1,
    .params = {{.name = "photons",
                .kind = "drawn",
                .default_value = "100..1000",
                .help = "photons at the brightest value; fewer make more noise",
                .low = 1,
                .high = 100000},
               probability()},
    .build = build_op<PoissonNoise>};

// iso_noise(color, intensity): a camera's noise in low light: brightness noise that all channels share, stronger in brighter
// places, and separate colour noise in each channel. (Albumentations' ISONoise adds both in HLS.)
namespace {

class IsoNoise : public Op {
 public:
  explicit IsoNoise(OpArguments& arguments)
      : color_(arguments.drawn("color")), intensity_(arguments.drawn("intensity")) {}
  Status plan(const ImageSize&, RandomStream& rng, OpDraw& draw) const override {
    draw.values = {static_cast<float>(color_.draw(rng)), static_cast<float>(intensity_.draw(rng))};
    draw.key = draw_key(rng);
    return {};
  }
  Status apply(const OpDraw& draw, const ConstImageView& in, const ImageView& out,
               ChainScratch& scratch) const override {
    const int channels = out.channels;
    // Standard deviations in values of 0..255, 8 bits after the point.
    const int64_t color = static_cast<int64_t>(static_cast<double>(draw.values[0]) * 255 * 256);
    std::array<int64_t, 256> bright{};
    for (size_t v = 0; v < bright.size(); ++v)
      bright[v] = static_cast<int64_t>(static_cast<double>(draw.values[1]) *
                                       std::sqrt(static_cast<double>(v) * 255) * 256);
    const std::span<const int16_t> normal = normal_quantiles();
    const size_t numbers =
        size_t(out.width) * size_t(channels + 1);  // per pixel: brightness, then the channels
    const size_t room = (numbers + kNoiseBlock) * sizeof(uint16_t);
    if (scratch.rows.size() < room) scratch.rows.resize(room);
    auto* const noise = reinterpret_cast<uint16_t*>(scratch.rows.data());
    constexpr int kShift = 8 + kNormalBits;
    for (int y = 0; y < out.height; ++y) {
      uniform_row(draw.key, static_cast<uint32_t>(y), {noise, numbers});
      const uint16_t* drawn = noise;
      const uint8_t* from = in.row(y);
      uint8_t* to = out.row(y);
      for (int x = 0; x < out.width; ++x) {
        const int64_t shared = normal[*drawn++ >> 4];
        for (int c = 0; c < channels; ++c, ++from) {
          const int64_t sum =
              shared * bright[*from] + normal[*drawn++ >> 4] * color + (int64_t{1} << (kShift - 1));
          *to++ = static_cast<uint8_t>(std::clamp(*from + static_cast<int>(sum >> kShift), 0, 255));
        }
      }
    }
    return {};
  }

 private:
  Drawn color_;
  Drawn intensity_;
};

}  // namespace

extern const OpRecord iso_noise_augmentation = {
    .name = "iso_noise",
    .help = "a camera's noise in low light (ISONoise)",
    .version = 1,
    .params = {{.name = "color",
                .kind = "drawn",
                .default_value = "0.01..0.05",
                .help = "standard deviation per channel, 1 being the whole range",
                .low = 0,
                .high = 1},
               {.name = "intensity",
                .kind = "drawn",
                .default_value = "0.1..0.3",
                .help = "standard deviation of the brightest value's brightness, 1 being the whole range",
                .low = 0,
                .high = 1},
               probability()},
    .build = build_op<IsoNoise>};

// jpeg(quality): the image after it was saved as JPEG and read again (torchvision's JPEG, Albumentations' ImageCompression):
// baseline, chroma 4:2:0, libjpeg's scale of qualities. The pixels are the same as Pillow's.
namespace {

class Jpeg : public Op {
 public:
  explicit Jpeg(OpArguments& arguments) : quality_(arguments.drawn("quality")) {}
  Status plan(const ImageSize&, RandomStream& rng, OpDraw& draw) const override {
    draw.values[0] = static_cast<float>(quality_.draw_int(rng));
    return {};
  }
  bool narrow(const Region& needed, OpDraw& draw) const override {
    draw.region = jpeg_surroundings(draw.in, needed);
    draw.window = needed;
    return true;
  }
  Status apply(const OpDraw& draw, const ConstImageView& in, const ImageView& out,
               ChainScratch& scratch) const override {
    through_jpeg(jpeg_divisors(static_cast<int>(draw.values[0])), draw.in, draw.region, draw.window, in, out,
                 scratch.work);
    return {};
  }

 private:
  Drawn quality_;
};

}  // namespace

extern const OpRecord jpeg_augmentation = {.name = "jpeg",
                                           .help = "compress as JPEG and decode again (ImageCompression)",
                                           .version = 1,
                                           .params = {{.name = "quality",
                                                       .kind = "ints",
                                                       .default_value = "",
                                                       .help = "libjpeg's quality",
                                                       .low = 1,
                                                       .high = 100},
                                                      probability()},
                                           .build = build_op<Jpeg>};

// downscale(scale, interpolation): reduces the image and enlarges it again, which loses fine details (Albumentations' Downscale).
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
    // The second resize may enlarge the first one's memory, to at most twice its size. That is no more than both need together.
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
    .help = "downscale and upscale again (Downscale)",
    .version = 1,
    .params = {{.name = "scale",
                .kind = "drawn",
                .default_value = "0.25..0.5",
                .help = "scale of the small image",
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
