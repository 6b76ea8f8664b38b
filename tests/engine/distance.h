// How far two tensors are from each other, for tests of numbers that are nearly the same.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "dlpipe/tensor.h"

namespace dlpipe::test {

/// The largest difference of two elements. Infinite where that is NaN (std::max would pass over it), where one tensor alone is
/// undefined, and where they have other numbers of elements.
inline double largest_difference(const engine::Tensor& got, const engine::Tensor& expected) {
  if (got.defined() != expected.defined()) return INFINITY;
  if (!got.defined()) return 0;
  const std::vector<double> a = got.to_doubles(), b = expected.to_doubles();
  if (a.size() != b.size()) return INFINITY;
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double apart = std::abs(a[i] - b[i]);
    if (std::isnan(apart)) return INFINITY;
    largest = std::max(largest, apart);
  }
  return largest;
}

/// The same, relative to the largest expected value: sums of many terms have errors of the size of the terms, wherever the sum
/// itself happens to land.
inline double distance(const engine::Tensor& got, const engine::Tensor& expected) {
  const double difference = largest_difference(got, expected);
  if (!std::isfinite(difference) || !expected.defined()) return difference;
  double size = 1e-30;
  for (const double value : expected.to_doubles()) size = std::max(size, std::abs(value));
  return difference / size;
}

}  // namespace dlpipe::test
