// The weights of convolve (blur_kernels.h): 16 bits after the point, summing to 2^16 - 1.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "dlpipe/base/portable_math.h"

namespace dlpipe::augment {

/// Any positive numbers, an odd number of them, as weights of that proportion.
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
