// What tests of convolutions draw and compare.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "dlpipe/base/rng.h"
#include "dlpipe/engine/core/tensor.h"

namespace dlpipe::engine::test {

/// f32 in [-1, 1).
inline Tensor uniform_noise(const Shape& shape, RandomStream random) {
  std::vector<float> values(static_cast<size_t>(shape.elements()));
  for (float& value : values) value = static_cast<float>(random.uniform_double() * 2 - 1);
  return Tensor::from<float>(values, shape);
}

/// The largest difference, relative to the largest expected value: sums of many terms have errors of the size
/// of the terms, wherever the sum itself happens to land. Infinite where one is NaN or alone is undefined.
inline double distance(const Tensor& got, const Tensor& expected) {
  if (got.defined() != expected.defined()) return INFINITY;
  if (!got.defined()) return 0;
  const std::vector<double> a = got.to_doubles(), b = expected.to_doubles();
  if (a.size() != b.size()) return INFINITY;
  double difference = 0, largest = 1e-30;
  for (size_t i = 0; i < b.size(); ++i) {
    const double apart = std::abs(a[i] - b[i]);
    if (std::isnan(apart)) return INFINITY;
    difference = std::max(difference, apart);
    largest = std::max(largest, std::abs(b[i]));
  }
  return difference / largest;
}

}  // namespace dlpipe::engine::test
