// Ops on colours, which combine a pixel's channels.
#include <cmath>

#include "augment/color_kernels.h"
#include "augment/kinds.h"

namespace dlpipe::augment {

// saturation(factor): multiplies each pixel's distance from its own grey by a factor (PIL.ImageEnhance.Color).
namespace {

class Saturation : public ColorOp {
 public:
  explicit Saturation(OpArguments& arguments) : factor_(arguments.drawn("factor")) {}
  Status draw_color(RandomStream& rng, OpDraw& draw) const override {
    draw.values[0] = static_cast<float>(factor_.draw(rng));
    return {};
  }
  Status apply(const OpDraw& draw, const ConstImageView& in, const ImageView& out,
               ChainScratch&) const override {
    blend_luma(in, draw.values[0], out);
    return {};
  }

 private:
  Drawn factor_;
};

}  // namespace

extern const OpRecord saturation_augmentation = {
    .name = "saturation",
    .help = "scale each pixel's distance from its grey value; grey images are unchanged",
    .version = 1,
    .params = {factor_parameter("factor", "0.4", "0 is grey, 1 changes nothing"), probability()},
    .build = build_op<Saturation>};

// hue(shift): rotates the hue of every pixel by a fraction of the full circle, as torchvision's adjust_hue
// does for PIL images: Pillow's 8-bit HSV, h plus 255 shift modulo 256, and back.
namespace {

class Hue : public ColorOp {
 public:
  explicit Hue(OpArguments& arguments) : shift_(arguments.drawn("shift")) {}
  Status draw_color(RandomStream& rng, OpDraw& draw) const override {
    draw.values[0] = static_cast<float>(std::trunc(shift_.draw(rng) * 255));
    return {};
  }
  Status apply(const OpDraw& draw, const ConstImageView& in, const ImageView& out,
               ChainScratch&) const override {
    turn_hue(static_cast<int>(draw.values[0]) & 255, in, out);
    return {};
  }

 private:
  Drawn shift_;
};

}  // namespace

extern const OpRecord hue_augmentation = {.name = "hue",
                                          .help = "rotate the hue of each pixel; grey images are unchanged",
                                          .version = 1,
                                          .params = {{.name = "shift",
                                                      .kind = "spread",
                                                      .default_value = "0.1",
                                                      .help = "share of the full circle; 0 changes nothing",
                                                      .low = -0.5,
                                                      .high = 0.5,
                                                      .unit = "turns"},
                                                     probability()},
                                          .build = build_op<Hue>};

// grayscale: every channel becomes the pixel's luma (PIL's L); the image keeps its channels.
namespace {

class Grayscale : public ColorOp {
 public:
  explicit Grayscale(OpArguments&) {}
  Status apply(const OpDraw&, const ConstImageView& in, const ImageView& out, ChainScratch&) const override {
    to_luma(in, out);
    return {};
  }
};

}  // namespace

extern const OpRecord grayscale_augmentation = {
    .name = "grayscale",
    .help = "remove the colours; the image keeps its channels (ToGray)",
    .version = 1,
    .params = {probability()},
    .build = build_op<Grayscale>};

// fancy_pca(sigma): moves the colours along the principal components of ImageNet's colours, along each by a normal random
// number times sigma (Krizhevsky et al., "ImageNet Classification with Deep Convolutional Neural Networks", 2012, section 4.1).
namespace {

// Statistics of ImageNet's training pixels in 0..1: standard deviations along the components, and the components (columns).
constexpr double kDeviation[3] = {0.2175, 0.0188, 0.0045};
constexpr double kComponents[3][3] = {
    {-0.5675, 0.7192, 0.4009}, {-0.5808, -0.0045, -0.8140}, {-0.5836, -0.6948, 0.4203}};

class FancyPca : public ColorOp {
 public:
  explicit FancyPca(OpArguments& arguments) : sigma_(arguments.number("sigma")) {}
  Status draw_color(RandomStream& rng, OpDraw& draw) const override {
    double along[3];
    for (int k = 0; k < 3; ++k) along[k] = sigma_ * rng.normal() * kDeviation[k];
    for (size_t c = 0; c < 3; ++c) {
      double sum = 0;
      for (int k = 0; k < 3; ++k) sum += kComponents[c][k] * along[k];
      draw.values[c] = static_cast<float>(sum * 255);
    }
    return {};
  }
  Status apply(const OpDraw& draw, const ConstImageView& in, const ImageView& out,
               ChainScratch&) const override {
    LookupTables tables;
    for (size_t c = 0; c < tables.of.size(); ++c) {
      const float added = c < 3 ? draw.values[c] : 0;
      for (size_t v = 0; v < 256; ++v)
        tables.of[c][v] =
            static_cast<uint8_t>(std::clamp(std::floor(static_cast<float>(v) + added + 0.5f), 0.0f, 255.0f));
    }
    look_up(tables, in, out);
    return {};
  }

 private:
  double sigma_;
};

}  // namespace

extern const OpRecord fancy_pca_augmentation = {
    .name = "fancy_pca",
    .help =
        "shift colours along ImageNet's principal components (AlexNet's lighting); grey images are unchanged",
    .version = 1,
    .params = {{.name = "sigma",
                .kind = "float",
                .default_value = "0.1",
                .help = "standard deviation of the shifts, 1 being ImageNet's own",
                .low = 0,
                .high = 10},
               probability()},
    .build = build_op<FancyPca>};

// channel_shuffle: puts the channels into a random order; all orders are equally likely.
namespace {

class ChannelShuffle : public PixelOp {
 public:
  explicit ChannelShuffle(OpArguments&) {}
  Status plan(const ImageSize& in, RandomStream& rng, OpDraw& draw) const override {
    for (int c = 0; c < in.channels; ++c) draw.values[static_cast<size_t>(c)] = static_cast<float>(c);
    for (int c = in.channels - 1; c > 0; --c)
      std::swap(draw.values[static_cast<size_t>(c)], draw.values[rng.below(static_cast<uint32_t>(c) + 1)]);
    return {};
  }
  Status apply(const OpDraw& draw, const ConstImageView& in, const ImageView& out,
               ChainScratch&) const override {
    std::array<int, 4> source{};
    for (size_t c = 0; c < source.size(); ++c) source[c] = static_cast<int>(draw.values[c]);
    permute_channels(source, in, out);
    return {};
  }
};

}  // namespace

extern const OpRecord channel_shuffle_augmentation = {.name = "channel_shuffle",
                                                      .help = "the channels in a random order",
                                                      .version = 1,
                                                      .params = {probability()},
                                                      .build = build_op<ChannelShuffle>};

// channel_drop(channels, fill): sets some channels to one value (Albumentations' ChannelDropout).
namespace {

class ChannelDrop : public PixelOp {
 public:
  explicit ChannelDrop(OpArguments& arguments)
      : channels_(arguments.drawn("channels")), fill_(arguments.integer("fill")) {}
  Status plan(const ImageSize& in, RandomStream& rng, OpDraw& draw) const override {
    // values[c]: whether channel c is dropped. At least one stays.
    const int most = std::max(in.channels - 1, 0);
    int left = std::min(channels_.draw_int(rng), most);
    draw.active = left > 0;
    for (int c = 0; c < in.channels && left > 0; ++c) {
      if (rng.below(static_cast<uint32_t>(in.channels - c)) >= static_cast<uint32_t>(left)) continue;
      draw.values[static_cast<size_t>(c)] = 1;
      --left;
    }
    return {};
  }
  Status apply(const OpDraw& draw, const ConstImageView& in, const ImageView& out,
               ChainScratch&) const override {
    LookupTables tables;
    for (size_t c = 0; c < tables.of.size(); ++c) {
      for (size_t v = 0; v < 256; ++v)
        tables.of[c][v] = static_cast<uint8_t>(draw.values[c] > 0 ? static_cast<size_t>(fill_) : v);
    }
    look_up(tables, in, out);
    return {};
  }

 private:
  Drawn channels_;
  int fill_;
};

}  // namespace

extern const OpRecord channel_drop_augmentation = {
    .name = "channel_drop",
    .help = "set some channels to one value; at least one is unchanged",
    .version = 1,
    .params =
        {{.name = "channels", .kind = "ints", .default_value = "1", .help = "how many", .low = 1, .high = 3},
         {.name = "fill", .kind = "int", .default_value = "0", .help = "their value", .low = 0, .high = 255},
         probability()},
    .build = build_op<ChannelDrop>};

}  // namespace dlpipe::augment
