// The inner loops of ops that read the pixels around each pixel, and their margins and weights. As in color_kernels.h, the same
// bits on every instruction set. Internal to augment.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/portable_math.h"
#include "dlpipe/image.h"

namespace dlpipe::augment {

/// How pixels beyond the border are extended: by repeating the border, or mirrored without repeating it.
enum class Border { kReplicate, kReflect };
/// The image's `window` with `reach` more pixels on every side; `in` has `region` of an image of `width` x `height`, extended
/// beyond its border by `border`. The result is in `work`.
ConstImageView with_margin(const ConstImageView& in, const Region& region, const Region& window, int width,
                           int height, int reach_x, int reach_y, Border border, std::vector<std::byte>& work);

/// out = (sum of weights[dy][dx] in[y + dy - 1][x + dx - 1]) / divisor of an image with margins of 1, halves rounded up,
/// clipped. Weights are below 2^15, their absolute values sum to less than 2^15.
void convolve3x3(const ConstImageView& with_margins, const std::array<int, 9>& weights, int divisor,
                 const ImageView& out);

/// The mean of an image with margins at places relative to each output pixel (0, 0 being the margins' first), halves
/// rounded up; at most 256 of them.
struct TapOffset {
  int x = 0;
  int y = 0;
};
void average_taps(const ConstImageView& with_margins, std::span<const TapOffset> taps, const ImageView& out);

/// The medians of squares of 3 or 5 around each pixel of an image with margins. False if there is no such kernel: for other
/// sides, and rows shorter than a vector.
bool median_small(const ConstImageView& with_margins, int side, const ImageView& out);

/// A window of an image, and the available pixels around it.
struct ImagePart {
  ConstImageView in;  // holds `region`
  Region region;
  Region window;
  int width = 0;  // the image's
  int height = 0;
};

/// Separable convolution of the window, columns first, with an odd number of weights, the same for both directions; the image
/// is mirrored at its border without repeating it. Weights (below) have 16 bits after the point and sum to less than 2^16.
/// `work` stores rows between the passes.
void convolve(const ImagePart& part, std::span<const uint16_t> weights, const ImageView& out,
              std::vector<std::byte>& work);

// The weights of convolve: 16 bits after the point, summing to 2^16 - 1.

/// Weights proportional to an odd number of positive numbers.
inline std::vector<uint16_t> blur_weights(const std::vector<double>& real) {
  double sum = 0;
  for (const double weight : real) sum += weight;
  std::vector<uint16_t> weights;
  int left = 0xffff;
  for (const double weight : real) {
    weights.push_back(static_cast<uint16_t>(std::floor(weight / sum * 0xffff + 0.5)));
    left -= weights.back();
  }
  uint16_t& middle = weights[weights.size() / 2];
  middle = static_cast<uint16_t>(middle + left);
  return weights;
}

/// exp(-x^2 / 2 sigma^2) at x = -reach .. reach.
inline std::vector<uint16_t> gaussian_weights(double sigma, int reach) {
  std::vector<double> real;
  for (int x = -reach; x <= reach; ++x) real.push_back(portable_exp(-0.5 * x * x / (sigma * sigma)));
  return blur_weights(real);
}

}  // namespace dlpipe::augment
