// Products of small f32 matrices in a core's caches, in Highway, chosen at run time for the CPU. Used by
// block_gemm, convolutions and attention. One thread; for large matrices see gemm.h.
//
// Every element is one chain of fused multiply-adds over k = 0, 1, ..., for any vector width. So the bits
// are the same on all instruction sets that have them (AVX2 and better, NEON). Pure functions. Internal to
// engine/cpu.
#pragma once

#include <cstdint>

namespace dlpipe::engine::cpu {

/// The left operand: element (i, k) is at data + i * row + k * step.
struct BlockMatrix {
  const float* data = nullptr;
  int64_t row = 0, step = 1;
};

struct BlockProduct {
  /// The number of columns must be a multiple of this.
  int64_t panel;
  /// How many columns are computed together, one or two panels. `run` is fastest with multiples of it.
  int64_t wide;
  /// How many rows are computed together. `run` is fastest with multiples of it.
  int64_t rows;
  /// c[i, j] = (accumulate: c[i, j] +) sum over k < terms of a[i, k] b[k, j]. Rows of b and c are b_row and
  /// c_row elements apart, and the columns of a row are contiguous.
  void (*run)(const BlockMatrix& a, const float* b, int64_t b_row, int64_t terms, float* c, int64_t c_row,
              int64_t rows, int64_t columns, bool accumulate);
  /// to[c * to_row + r] = from[r * from_row + c].
  void (*transpose)(const float* from, int64_t from_row, int64_t rows, int64_t columns, float* to,
                    int64_t to_row);
  /// to[r * to_row + c] = from[r * from_row + c] for short rows. Elements after a row's end, up to the next
  /// multiple of a vector, are read and written too.
  void (*copy)(const float* from, int64_t from_row, int64_t rows, int64_t columns, float* to, int64_t to_row);
};
const BlockProduct& block_product();

}  // namespace dlpipe::engine::cpu
