// Rows that are f32 or bf16 in memory and f32 where they are computed: widened and narrowed a row at a time
// in the first-level cache, so that memory is passed once and no cast is a pass of its own. For bodies of
// on_best_isa().
#pragma once

#include <algorithm>

#include "dlpipe/engine/core/parallel.h"
#include "dlpipe/engine/core/tensor.h"
#include "dlpipe/engine/cpu/loops/vec.h"

namespace dlpipe::engine::cpu {

/// A tensor's memory, f32 or bf16; none where it is undefined.
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

  /// A row from element `at` on as floats: where it is, or in `scratch`.
  DLPIPE_INLINE const float* read(int64_t at, int64_t count, float* scratch) const {
    if (!low) return floats(at);
    const BFloat16* const from = lows(at);
    int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes) store(scratch + i, load(from + i));
    for (; i < count; ++i) scratch[i] = load_one(from + i);
    return scratch;
  }
  /// Where to compute a row for `write`.
  DLPIPE_INLINE float* target(int64_t at, float* scratch) const {
    return data == nullptr || low ? scratch : floats(at);
  }
  /// Puts a row there, unless that is where it was computed.
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

/// So many rows of floats of the calling worker.
inline float* scratch_rows(int64_t rows, int64_t channels) {
  return reinterpret_cast<float*>(worker_scratch(0, static_cast<size_t>(rows * channels) * sizeof(float)));
}

}  // namespace dlpipe::engine::cpu
