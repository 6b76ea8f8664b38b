// Loops along a row for norms, softmax and losses: f32, sixteen lanes in a fixed order, so that every
// instruction set and thread count gives the same bits. For use inside on_best_isa.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "dlpipe/engine/ops/vector_math.h"

namespace dlpipe::engine::cpu {

inline constexpr int kRowLanes = 16;

/// Elements of rows per slice: about as much work as an elementwise slice.
inline int64_t rows_per_slice(int64_t row_elements) {
  return std::max<int64_t>(1, 16384 / std::max<int64_t>(1, row_elements));
}

/// Sum of term(i) for i in [0, count).
template <class Term>
DLPIPE_FORMULA float sum_terms(int64_t count, const Term& term) {
  std::array<float, kRowLanes> lanes{};
  int64_t i = 0;
  for (; i + kRowLanes <= count; i += kRowLanes) {
    for (int lane = 0; lane < kRowLanes; ++lane) lanes[lane] += term(i + lane);
  }
  float sum = 0;
  for (; i < count; ++i) sum += term(i);
  for (int width = kRowLanes / 2; width > 0; width /= 2) {
    for (int lane = 0; lane < width; ++lane) lanes[lane] += lanes[lane + width];
  }
  return sum + lanes[0];
}

/// The largest of x[0 .. count), count > 0; anything if there is a NaN.
DLPIPE_FORMULA float largest_of(const float* x, int64_t count) {
  std::array<float, kRowLanes> lanes;
  lanes.fill(x[0]);
  int64_t i = 0;
  for (; i + kRowLanes <= count; i += kRowLanes) {
    for (int lane = 0; lane < kRowLanes; ++lane)
      lanes[lane] = lanes[lane] > x[i + lane] ? lanes[lane] : x[i + lane];
  }
  float largest = x[0];
  for (; i < count; ++i) largest = largest > x[i] ? largest : x[i];
  for (int lane = 0; lane < kRowLanes; ++lane) largest = largest > lanes[lane] ? largest : lanes[lane];
  return largest;
}

}  // namespace dlpipe::engine::cpu
