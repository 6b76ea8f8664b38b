// hue(shift): the hue of every pixel turned by a share of the whole circle, as torchvision's adjust_hue does for PIL
// images: Pillow's 8-bit HSV, h plus 255 shift modulo 256, and back.
#include <cmath>

#include "dlpipe/augment/kinds.h"

namespace dlpipe::augment {

namespace {

/// Pillow's h and s of a pixel, after colorsys.py; v is the largest of r, g and b.
struct HueAndSaturation {
  int hue;
  int saturation;
};
HueAndSaturation hue_and_saturation(int r, int g, int b, int most, int least) {
  if (most == least) return {0, 0};
  const auto span = static_cast<float>(most - least);
  const float from_r = static_cast<float>(most - r) / span;
  const float from_g = static_cast<float>(most - g) / span;
  const float from_b = static_cast<float>(most - b) / span;
  float hue = 0;
  if (r == most) {
    hue = from_b - from_g;
  } else if (g == most) {
    hue = static_cast<float>(2.0 + static_cast<double>(from_r) - static_cast<double>(from_b));
  } else {
    hue = static_cast<float>(4.0 + static_cast<double>(from_g) - static_cast<double>(from_r));
  }
  const double turned = static_cast<double>(hue) / 6.0 + 1.0;
  hue = static_cast<float>(turned >= 1.0 ? turned - 1.0 : turned);
  const float saturation = span / static_cast<float>(most);
  return {static_cast<int>(static_cast<double>(hue) * 255.0),
          static_cast<int>(static_cast<double>(saturation) * 255.0)};
}

class Hue : public ColorOp {
 public:
  explicit Hue(OpArguments& arguments) : shift_(arguments.drawn("shift")) {}
  Status draw_color(RandomStream& rng, OpDraw& draw) const override {
    draw.values[0] = static_cast<float>(std::trunc(shift_.draw(rng) * 255));
    return {};
  }
  Status apply(const OpDraw& draw, const ConstImageView& in, const ImageView& out,
               ChainScratch&) const override {
    const int shift = static_cast<int>(draw.values[0]) & 255;
    // Of each hue: which sixth of the circle it lies in, and how far.
    std::array<int, 256> sixth;
    std::array<double, 256> within;
    for (int h = 0; h < 256; ++h) {
      const double sixths = static_cast<double>(static_cast<float>(h)) * 6.0 / 255.0;
      sixth[static_cast<size_t>(h)] = static_cast<int>(sixths);
      within[static_cast<size_t>(h)] = static_cast<double>(static_cast<float>(sixths - std::floor(sixths)));
    }
    for (int y = 0; y < out.height; ++y) {
      const uint8_t* from = in.row(y);
      uint8_t* to = out.row(y);
      for (int x = 0; x < out.width; ++x, from += in.channels, to += in.channels) {
        if (in.channels == 4) to[3] = from[3];
        const int most = std::max({from[0], from[1], from[2]});
        const int least = std::min({from[0], from[1], from[2]});
        const auto [hue, saturation] = hue_and_saturation(from[0], from[1], from[2], most, least);
        const auto turned = static_cast<size_t>((hue + shift) & 255);
        if (saturation == 0) {
          to[0] = to[1] = to[2] = static_cast<uint8_t>(most);
          continue;
        }
        write_rgb(sixth[turned], within[turned], saturation, most, to);
      }
    }
    return {};
  }

 private:
  static void write_rgb(int sixth, double within, int saturation, int value, uint8_t* to) {
    const double s = static_cast<double>(static_cast<float>(saturation / 255.0));
    // Positive, so that adding a half rounds as round() does.
    const auto rounded = [value](double share) {
      return static_cast<uint8_t>(static_cast<double>(static_cast<float>(value * share)) + 0.5);
    };
    const auto v = static_cast<uint8_t>(value);
    const uint8_t p = rounded(1.0 - s);
    const uint8_t q = rounded(1.0 - s * within);
    const uint8_t t = rounded(1.0 - s * (1.0 - within));
    const std::array<std::array<uint8_t, 3>, 6> all = {
        {{v, t, p}, {q, v, p}, {p, v, t}, {p, q, v}, {t, p, v}, {v, p, q}}};
    const std::array<uint8_t, 3>& rgb = all[static_cast<size_t>(sixth % 6)];
    std::copy(rgb.begin(), rgb.end(), to);
  }

  Drawn shift_;
};

}  // namespace

extern const OpRecord hue_augmentation = {.name = "hue",
                                          .help = "the hue of every pixel turned; grey pictures stay",
                                          .version = 1,
                                          .params = {{.name = "shift",
                                                      .kind = "spread",
                                                      .default_value = "0.1",
                                                      .help = "share of the whole circle; 0 changes nothing",
                                                      .low = -0.5,
                                                      .high = 0.5,
                                                      .unit = "turns"},
                                                     probability()},
                                          .build = build_op<Hue>};

}  // namespace dlpipe::augment
