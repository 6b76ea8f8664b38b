// Matrices whose rows begin at multiples of sixteen bytes: tensor cores read them in packs. A product with rows of 50257 low
// numbers, a language model's logits, took six times as long on an H200 as with rows that are aligned. The copies were not run on a GPU yet.
#pragma once

#include "dlpipe/engine/cuda/grid/elements.h"

namespace dlpipe::engine::cuda {
inline namespace DLPIPE_GRID_NAMESPACE {

/// A block copies neighbours of one row, a thread every kThreads-th of them: rows begin anywhere.
template <class T>
struct CopyRows {
  static constexpr const char* kName = "rows to another pitch";
  static constexpr int kThreads = 256;
  static constexpr int kEach = 8;
  using Shared = NoShared;
  const T* from;
  int64_t from_pitch;
  T* to;
  int64_t to_pitch;
  int64_t columns;

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, Shared&) const {
    const int64_t spans = (columns + kThreads * kEach - 1) / (kThreads * kEach);
    const int64_t row = block.index() / spans;
    const int64_t left = block.index() % spans * kThreads * kEach;
    block.each([&](int thread) {
      for (int i = 0; i < kEach; ++i) {
        const int64_t column = left + i * kThreads + thread;
        if (column < columns) to[row * to_pitch + column] = from[row * from_pitch + column];
      }
    });
  }
};

/// Elements from a row to the next where each begins with a pack of low numbers.
inline int64_t aligned_pitch(int64_t columns) {
  return blocks_for(columns, kPackWidth<BFloat16>) * kPackWidth<BFloat16>;
}

/// Whether a product is faster from or to a copy of aligned rows, which a GPU's memory holds beside them: it reads them many
/// times, the copy once. Short rows leave most of a block idle.
inline bool is_better_aligned(DType dtype, int64_t rows, int64_t columns) {
  constexpr int64_t kLeast = int64_t{1} << 20;  // elements
  constexpr int64_t kLongRow = 1024;
  return is_low(dtype) && columns % kPackWidth<BFloat16> != 0 && columns >= kLongRow &&
         rows * columns >= kLeast;
}

/// [rows, columns] of a low dtype.
inline void copy_rows(const void* from, int64_t from_pitch, void* to, int64_t to_pitch, int64_t rows,
                      int64_t columns) {
  using Bits = uint16_t;
  using Kernel = CopyRows<Bits>;
  static_assert(sizeof(Bits) == sizeof(BFloat16) && sizeof(Bits) == sizeof(Float16));
  launch(Kernel{static_cast<const Bits*>(from), from_pitch, static_cast<Bits*>(to), to_pitch, columns},
         rows * blocks_for(columns, int64_t{Kernel::kThreads} * Kernel::kEach));
}

}  // namespace DLPIPE_GRID_NAMESPACE
}  // namespace dlpipe::engine::cuda
