// Blurring and sharpening: every pixel is computed from those around it.
#include <cmath>

#include "augment/kinds.h"
#include "augment/neighbourhood_kernels.h"
#include "base/portable_math.h"
#include "base/text.h"

namespace dlpipe::augment {

// box_blur(size): the mean of a square around every pixel; the image is mirrored at its border
// (Albumentations' Blur, OpenCV's blur).
namespace {

class BoxBlur : public SquareOp {
 public:
  using SquareOp::SquareOp;
  Status apply(const OpDraw& draw, const ConstImageView& in, const ImageView& out,
               ChainScratch& scratch) const override {
    blur(draw, blur_weights(std::vector<double>(size_t(2 * reach(draw) + 1), 1.0)), in, out, scratch);
    return {};
  }
};

}  // namespace

extern const OpRecord box_blur_augmentation = {
    .name = "box_blur",
    .help = "the mean of a square around each pixel (Blur)",
    .version = 2,
    .params = {{.name = "size",
                .kind = "ints",
                .default_value = "3..7",
                .help = "width of the square; an even number becomes the next odd one",
                .low = 1,
                .high = 99,
                .unit = "pixels"},
               probability()},
    .build = build_op<BoxBlur>};

// gaussian_blur(size, sigma): torchvision's GaussianBlur. Weights are exp(-x^2 / 2 sigma^2) at `size` whole
// distances, normalised to sum 1; the image is mirrored at its border. Weights have 16 bits, and values
// between the two passes have 8 bits after the point, so results differ from floats by at most 1.
namespace {

class GaussianBlur : public NeighbourhoodOp {
 public:
  explicit GaussianBlur(OpArguments& arguments)
      : size_(arguments.is_none("size") ? 0 : arguments.integer("size")), sigma_(arguments.drawn("sigma")) {
    if (size_ > 0 && size_ % 2 == 0)
      arguments.refuse(
          {ErrorCode::kMisuse, concat("size must be odd, so that it has a middle, got ", size_)});
  }
  Status plan(const ImageSize&, RandomStream& rng, OpDraw& draw) const override {
    const double sigma = sigma_.draw(rng);
    const int half = size_ / 2;
    draw.values = {static_cast<float>(sigma),
                   size_ > 0 ? static_cast<float>(half) : static_cast<float>(std::ceil(3 * sigma))};
    return {};
  }
  int reach(const OpDraw& draw) const override { return static_cast<int>(draw.values[1]); }
  Status apply(const OpDraw& draw, const ConstImageView& in, const ImageView& out,
               ChainScratch& scratch) const override {
    blur(draw, gaussian_weights(static_cast<double>(draw.values[0]), reach(draw)), in, out, scratch);
    return {};
  }

 private:
  int size_;  // 0: three sigma to each side
  Drawn sigma_;
};

}  // namespace

extern const OpRecord gaussian_blur_augmentation = {
    .name = "gaussian_blur",
    .help = "Gaussian blur (GaussianBlur)",
    .version = 1,
    .params = {{.name = "size",
                .kind = "int",
                .default_value = "none",
                .help = "width of the kernel, an odd number; none: three sigma to each side",
                .low = 1,
                .high = 99,
                .unit = "pixels"},
               {.name = "sigma",
                .kind = "drawn",
                .default_value = "0.1..2",
                .help = "standard deviation",
                .low = 0.01,
                .high = 16,
                .unit = "pixels"},
               probability()},
    .build = build_op<GaussianBlur>};

// median_blur(size): the median of a square around every pixel; the border's pixels are repeated (OpenCV's medianBlur).
namespace {

class MedianBlur : public SquareOp {
 public:
  using SquareOp::SquareOp;
  // For larger squares, a histogram that moves along the row: Huang, Yang and Tang, "A fast two-dimensional median filtering
  // algorithm" (1979).
  Status apply(const OpDraw& draw, const ConstImageView& in, const ImageView& out,
               ChainScratch& scratch) const override {
    const int far = reach(draw);
    const int side = 2 * far + 1;
    const ConstImageView wide = surroundings(draw, in, Border::kReplicate, scratch);
    if (median_small(wide, side, out)) return {};
    for (int c = 0; c < out.channels; ++c) {
      for (int y = 0; y < out.height; ++y) {
        std::array<int, 256> seen{};
        int median = 0;
        int below = 0;  // values less than the median
        const auto add = [&](int x, int change) {
          for (int dy = 0; dy < side; ++dy) {
            const int value = wide.row(y + dy)[x * out.channels + c];
            seen[static_cast<size_t>(value)] += change;
            if (value < median) below += change;
          }
        };
        for (int x = 0; x < side - 1; ++x) add(x, 1);
        for (int x = 0; x < out.width; ++x) {
          add(x + side - 1, 1);
          const int half = side * side / 2;
          while (below > half) below -= seen[static_cast<size_t>(--median)];
          while (below + seen[static_cast<size_t>(median)] <= half)
            below += seen[static_cast<size_t>(median++)];
          out.row(y)[x * out.channels + c] = static_cast<uint8_t>(median);
          add(x, -1);
        }
      }
    }
    return {};
  }
};

}  // namespace

extern const OpRecord median_blur_augmentation = {
    .name = "median_blur",
    .help = "the median of a square around each pixel",
    .version = 2,
    .params = {{.name = "size",
                .kind = "ints",
                .default_value = "3..5",
                .help = "width of the square; an even number becomes the next odd one",
                .low = 1,
                .high = 31,
                .unit = "pixels"},
               probability()},
    .build = build_op<MedianBlur>};

// motion_blur(size, angle): the mean along a line through every pixel, with points rounded to pixels; mirrored at the border.
namespace {

class MotionBlur : public NeighbourhoodOp {
 public:
  explicit MotionBlur(OpArguments& arguments)
      : size_(arguments.drawn("size")), angle_(arguments.drawn("angle")) {}
  Status plan(const ImageSize&, RandomStream& rng, OpDraw& draw) const override {
    const int far = draw_reach(size_, rng);
    draw.values = {static_cast<float>(far), static_cast<float>(angle_.draw(rng))};
    return {};
  }
  int reach(const OpDraw& draw) const override { return static_cast<int>(draw.values[0]); }
  Status apply(const OpDraw& draw, const ConstImageView& in, const ImageView& out,
               ChainScratch& scratch) const override {
    const int far = reach(draw);
    const SineAndCosine along =
        portable_sine_and_cosine(static_cast<double>(draw.values[1]) * (3.14159265358979323846 / 180));
    std::vector<TapOffset> taps;
    for (int i = -far; i <= far; ++i)
      taps.push_back({static_cast<int>(std::nearbyint(far + i * along.cosine)),
                      static_cast<int>(std::nearbyint(far - i * along.sine))});
    const ConstImageView wide = surroundings(draw, in, Border::kReflect, scratch);
    average_taps(wide, taps, out);
    return {};
  }

 private:
  Drawn size_;
  Drawn angle_;
};

}  // namespace

extern const OpRecord motion_blur_augmentation = {
    .name = "motion_blur",
    .help = "motion blur along a line",
    .version = 2,
    .params = {{.name = "size",
                .kind = "ints",
                .default_value = "3..7",
                .help = "length of the line; an even number becomes the next odd one",
                .low = 1,
                .high = 99,
                .unit = "pixels"},
               {.name = "angle",
                .kind = "drawn",
                .default_value = "0..180",
                .help = "angle of the line, counterclockwise from the horizontal",
                .low = -360,
                .high = 360,
                .unit = "degrees"},
               probability()},
    .build = build_op<MotionBlur>};

// unsharp(sigma, amount): adds `amount` times the difference from a gaussian blur.
namespace {

class Unsharp : public NeighbourhoodOp {
 public:
  explicit Unsharp(OpArguments& arguments)
      : sigma_(arguments.drawn("sigma")), amount_(arguments.drawn("amount")) {}
  Status plan(const ImageSize&, RandomStream& rng, OpDraw& draw) const override {
    draw.values = {static_cast<float>(sigma_.draw(rng)), static_cast<float>(amount_.draw(rng))};
    return {};
  }
  int reach(const OpDraw& draw) const override { return static_cast<int>(std::ceil(3 * draw.values[0])); }
  Status apply(const OpDraw& draw, const ConstImageView& in, const ImageView& out,
               ChainScratch& scratch) const override {
    blur(draw, gaussian_weights(static_cast<double>(draw.values[0]), reach(draw)), in, out, scratch);
    const int x = draw.window.x - draw.region.x, y = draw.window.y - draw.region.y;
    const ConstImageView middle(in.row(y) + ptrdiff_t{x} * in.channels, out.width, out.height, out.channels,
                                in.stride);
    blend_images(out, middle, 1 + draw.values[1], out);
    return {};
  }

 private:
  Drawn sigma_;
  Drawn amount_;
};

}  // namespace

extern const OpRecord unsharp_augmentation = {.name = "unsharp",
                                              .help = "sharpen by the difference from a blur (unsharp mask)",
                                              .version = 1,
                                              .params = {{.name = "sigma",
                                                          .kind = "drawn",
                                                          .default_value = "1",
                                                          .help = "standard deviation of the blur",
                                                          .low = 0.01,
                                                          .high = 16,
                                                          .unit = "pixels"},
                                                         {.name = "amount",
                                                          .kind = "drawn",
                                                          .default_value = "0.2..0.5",
                                                          .help = "how much of the difference is added",
                                                          .low = 0,
                                                          .high = 10},
                                                         probability()},
                                              .build = build_op<Unsharp>};

// sharpness(factor): multiplies every pixel's distance from its smoothed neighbourhood by a factor
// (PIL.ImageEnhance.Sharpness: 3x3 weights of 1, 5 in the middle, divided by 13; the image's border is unchanged).
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
    .help = "scale each pixel's difference from its smoothed neighbourhood (RandomAdjustSharpness)",
    .version = 1,
    .params = {factor_parameter("factor", "0.5", "0 is smoothed, 1 changes nothing"), probability()},
    .build = build_op<Sharpness>};

// emboss(alpha, strength): Albumentations' Emboss, a 3x3 filter that lights slopes from one side, mixed with
// the image by alpha. Weights have 10 bits after the point, so results differ from floats by at most 1.
namespace {

class Emboss : public NeighbourhoodOp {
 public:
  explicit Emboss(OpArguments& arguments)
      : alpha_(arguments.drawn("alpha")), strength_(arguments.drawn("strength")) {}
  Status plan(const ImageSize&, RandomStream& rng, OpDraw& draw) const override {
    draw.values = {static_cast<float>(alpha_.draw(rng)), static_cast<float>(strength_.draw(rng))};
    return {};
  }
  int reach(const OpDraw&) const override { return 1; }
  Status apply(const OpDraw& draw, const ConstImageView& in, const ImageView& out,
               ChainScratch& scratch) const override {
    constexpr int kOne = 1 << 10;
    const auto alpha = static_cast<double>(draw.values[0]);
    const auto s = static_cast<double>(draw.values[1]);
    const std::array<double, 9> filter = {-1 - s, -s, 0, -s, 1, s, 0, s, 1 + s};
    std::array<int, 9> weights{};
    for (size_t i = 0; i < weights.size(); ++i)
      weights[i] = static_cast<int>(std::nearbyint((alpha * filter[i] + (i == 4 ? 1 - alpha : 0)) * kOne));
    const ConstImageView wide = surroundings(draw, in, Border::kReflect, scratch);
    convolve3x3(wide, weights, kOne, out);
    return {};
  }

 private:
  Drawn alpha_;
  Drawn strength_;
};

}  // namespace

extern const OpRecord emboss_augmentation = {.name = "emboss",
                                             .help = "emboss: slopes lit from one side (Emboss)",
                                             .version = 1,
                                             .params = {{.name = "alpha",
                                                         .kind = "drawn",
                                                         .default_value = "0.2..0.5",
                                                         .help = "share of the embossed image",
                                                         .low = 0,
                                                         .high = 1},
                                                        {.name = "strength",
                                                         .kind = "drawn",
                                                         .default_value = "0.2..0.7",
                                                         .help = "direction of the light",
                                                         .low = 0,
                                                         .high = 4},
                                                        probability()},
                                             .build = build_op<Emboss>};

}  // namespace dlpipe::augment
