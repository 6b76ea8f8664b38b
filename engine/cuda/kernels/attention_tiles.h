// What self_attention's kernels are made of: where a head lies, blocks of positions in shared memory, and a
// thread's share of products of two such blocks.
#pragma once

#include "dlpipe/engine/cuda/grid/elements.h"
#include "dlpipe/engine/ops/attention.h"

namespace dlpipe::engine::cuda {
inline namespace DLPIPE_GRID_NAMESPACE {

inline constexpr int kAttentionThreads = 128;

/// What the kernels know of an AttentionShape.
struct AttentionHeads {
  int64_t heads, qkv_row, out_row;
  int length, width;
  float scale;
  bool causal;

  AttentionHeads(const AttentionShape& s, bool is_causal)
      : heads(s.heads),
        qkv_row(s.qkv_row()),
        out_row(s.out_row()),
        length(static_cast<int>(s.length)),
        width(static_cast<int>(s.width)),
        scale(static_cast<float>(s.scale)),
        causal(is_causal) {}

  /// First elements of head `index` of all sequences' heads: of its queries (keys and values follow out_row
  /// apart), of its outputs, of its softmax sums.
  DLPIPE_DEVICE int64_t qkv(int64_t index) const {
    return index / heads * length * qkv_row + index % heads * width;
  }
  DLPIPE_DEVICE int64_t out(int64_t index) const {
    return index / heads * length * out_row + index % heads * width;
  }
  DLPIPE_DEVICE int64_t sums(int64_t index) const { return index * length; }
  DLPIPE_DEVICE bool sees(int query, int key) const {
    return query < length && key < length && (!causal || key <= query);
  }
};

/// kRows positions of kWidth numbers in shared memory; threads that read one column of rows meet different
/// banks.
template <int kRows, int kWidth>
struct AttentionTile {
  float at[kRows][kWidth + 1];
};

/// `count` positions from memory, zero beyond them and beyond `width`. Part of a phase.
template <class T, int kRows, int kWidth>
DLPIPE_DEVICE void load_tile(int thread, const T* from, int64_t row, int count, int width,
                             AttentionTile<kRows, kWidth>& to) {
  for (int i = thread; i < kRows * kWidth; i += kAttentionThreads) {
    const int r = i / kWidth;
    const int d = i % kWidth;
    to.at[r][d] = r < count && d < width ? widened(from[r * row + d]) : 0.0f;
  }
}

/// A thread's share of the products of kRows rows with kOthers others: rows thread / 8 + 16 i and
/// others thread % 8 + 8 j.
template <int kRows, int kOthers>
struct AttentionScores {
  static constexpr int kLanes = 8;
  static constexpr int kStep = kAttentionThreads / kLanes;
  static constexpr int kEachRows = kRows / kStep;
  static constexpr int kEachOthers = kOthers / kLanes;
  static_assert(kRows % kStep == 0 && kOthers % kLanes == 0);
  float at[kEachRows][kEachOthers] = {};

  DLPIPE_DEVICE static int row(int thread, int i) { return thread / kLanes + i * kStep; }
  DLPIPE_DEVICE static int other(int thread, int j) { return thread % kLanes + j * kLanes; }

  template <int kWidth>
  DLPIPE_DEVICE void multiply(int thread, const AttentionTile<kRows, kWidth>& rows,
                              const AttentionTile<kOthers, kWidth>& others, int width) {
    for (int d = 0; d < width; ++d) {
      float left[kEachRows];
      float right[kEachOthers];
      for (int i = 0; i < kEachRows; ++i) left[i] = rows.at[row(thread, i)][d];
      for (int j = 0; j < kEachOthers; ++j) right[j] = others.at[other(thread, j)][d];
      for (int i = 0; i < kEachRows; ++i) {
        for (int j = 0; j < kEachOthers; ++j) at[i][j] += left[i] * right[j];
      }
    }
  }
};

/// A thread's share of kRows sums of rows of kWidth: rows warp + kWarps i, columns lane + kWarp j.
template <int kRows, int kWidth>
struct AttentionSums {
  static constexpr int kWarps = kAttentionThreads / kWarp;
  static constexpr int kEachRows = kRows / kWarps;
  static constexpr int kEachColumns = kWidth / kWarp;
  float at[kEachRows][kEachColumns];

  DLPIPE_DEVICE void clear() {
    for (auto& row : at) {
      for (float& sum : row) sum = 0;
    }
  }
  /// Adds weights[row][k] values[k] for each k.
  template <int kOthers>
  DLPIPE_DEVICE void add(int thread, const AttentionTile<kRows, kOthers>& weights,
                         const AttentionTile<kOthers, kWidth>& values) {
    for (int k = 0; k < kOthers; ++k) {
      float value[kEachColumns];
      for (int j = 0; j < kEachColumns; ++j) value[j] = values.at[k][thread % kWarp + j * kWarp];
      for (int i = 0; i < kEachRows; ++i) {
        const float weight = weights.at[thread / kWarp + i * kWarps][k];
        for (int j = 0; j < kEachColumns; ++j) at[i][j] += weight * value[j];
      }
    }
  }
  /// Multiplies each row by factors[row].
  DLPIPE_DEVICE void scale(int thread, const float* factors) {
    for (int i = 0; i < kEachRows; ++i) {
      for (int j = 0; j < kEachColumns; ++j) at[i][j] *= factors[thread / kWarp + i * kWarps];
    }
  }
  /// The first `count` rows, times `factor`.
  template <class T>
  DLPIPE_DEVICE void store(int thread, float factor, int count, int width, T* to, int64_t to_row) const {
    for (int i = 0; i < kEachRows; ++i) {
      const int row = thread / kWarp + i * kWarps;
      for (int j = 0; j < kEachColumns; ++j) {
        const int d = thread % kWarp + j * kWarp;
        if (row < count && d < width) to[row * to_row + d] = narrowed<T>(at[i][j] * factor);
      }
    }
  }
};

}  // namespace DLPIPE_GRID_NAMESPACE
}  // namespace dlpipe::engine::cuda
