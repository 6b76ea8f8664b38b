// Loops along a row for norms, softmax and losses, in f32. Sixteen lanes are summed in a fixed order, so
// the bits are the same for every instruction set and number of threads. For use inside on_best_isa().
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "dlpipe/tensor.h"
#include "engine/core/parallel.h"
#include "engine/cpu/loops/vec.h"
#include "engine/ops/vector_math.h"

namespace dlpipe::engine::cpu {

inline constexpr int kRowLanes = 16;

/// Rows per slice: about as much work as an elementwise slice.
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

/// The largest of x[0 .. count), count > 0; unspecified if there is a NaN.
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

// Rows that are f32 or bf16 in memory and computed in f32. They are converted row by row in the first-level
// cache, so that memory is read once and a cast needs no separate pass. For bodies of on_best_isa().

/// A tensor's memory, f32 or bf16; null if it is undefined.
struct StoredRows {
  void* data = nullptr;
  bool low = false;

  explicit StoredRows(const Tensor& tensor) {
    if (!tensor.defined()) return;
    data = tensor.raw();
    low = tensor.dtype() == DType::kBF16;
  }
  DLPIPE_INLINE float* floats(int64_t at) const { return static_cast<float*>(data) + at; }
  DLPIPE_INLINE BFloat16* lows(int64_t at) const { return static_cast<BFloat16*>(data) + at; }

  /// A row of floats that begins at element `at`: in place if it is f32, else converted to `scratch`.
  DLPIPE_INLINE const float* read(int64_t at, int64_t count, float* scratch) const {
    if (!low) return floats(at);
    const BFloat16* const from = lows(at);
    int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes) store(scratch + i, load(from + i));
    for (; i < count; ++i) scratch[i] = load_one(from + i);
    return scratch;
  }
  /// Where to compute a row that write() then stores.
  DLPIPE_INLINE float* target(int64_t at, float* scratch) const {
    return data == nullptr || low ? scratch : floats(at);
  }
  /// Stores a row, unless it was computed in place.
  DLPIPE_INLINE void write(int64_t at, int64_t count, const float* row) const {
    if (data == nullptr) return;
    if (!low) {
      if (row != floats(at)) std::copy_n(row, count, floats(at));
      return;
    }
    BFloat16* const to = lows(at);
    int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes) store(to + i, load(row + i));
    for (; i < count; ++i) store_one(to + i, row[i]);
  }
};

/// Scratch of the calling worker for `rows` rows of floats.
inline float* scratch_rows(int64_t rows, int64_t channels) {
  return reinterpret_cast<float*>(worker_scratch(0, static_cast<size_t>(rows * channels) * sizeof(float)));
}

}  // namespace dlpipe::engine::cpu
