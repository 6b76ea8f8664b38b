// iso_noise(color, intensity): a camera's noise at little light: brightness noise that all channels share, more where it is
// brighter, and colour noise of each channel's own. (Albumentations' ISONoise adds both in HLS.)
#include <cmath>

#include "dlpipe/augment/kinds.h"
#include "dlpipe/augment/noise.h"

namespace dlpipe::augment {

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
    .help = "a camera's noise at little light (ISONoise)",
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

}  // namespace dlpipe::augment
