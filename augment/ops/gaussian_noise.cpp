// gaussian_noise(sigma, mean, per_channel): normally distributed noise added to every value, rounded and clipped.
#include "dlpipe/augment/kinds.h"
#include "dlpipe/augment/noise.h"

namespace dlpipe::augment {

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
    // 8 bits after the point of a standard deviation in values of 0..255.
    const int scale = static_cast<int>(static_cast<double>(draw.values[0]) * 255 * 256 + 0.5);
    const int shift = 8 + kNormalBits;
    const int offset =
        static_cast<int>(static_cast<double>(draw.values[1]) * 255 * (1 << 8)) * (1 << kNormalBits);
    const std::span<const int16_t> normal = normal_quantiles();
    const size_t size = size_t(out.width) * size_t(out.channels);
    const size_t room = (size + kNoiseBlock) * sizeof(uint16_t);
    if (scratch.rows.size() < room) scratch.rows.resize(room);
    auto* const noise = reinterpret_cast<uint16_t*>(scratch.rows.data());
    for (int y = 0; y < out.height; ++y) {
      uniform_row(draw.key, static_cast<uint32_t>(y), {noise, size});
      const uint8_t* from = in.row(y);
      uint8_t* to = out.row(y);
      for (size_t i = 0; i < size; ++i) {
        const int64_t added = int64_t{normal[noise[i] >> 4]} * scale + offset;
        const int value = from[i] + static_cast<int>((added + (int64_t{1} << (shift - 1))) >> shift);
        to[i] = static_cast<uint8_t>(std::clamp(value, 0, 255));
      }
    }
    return {};
  }

 private:
  Drawn sigma_;
  Drawn mean_;
};

}  // namespace

extern const OpRecord gaussian_noise_augmentation = {
    .name = "gaussian_noise",
    .help = "normally distributed noise added to every value",
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

}  // namespace dlpipe::augment
