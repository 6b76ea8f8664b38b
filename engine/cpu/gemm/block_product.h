// Products of small f32 matrices that lie in a core's caches, in Highway, chosen at run time for the CPU:
// what Winograd's convolution and attention are made of. One thread; large matrices are gemm.h's.
//
// Every element is one chain of fused multiply-adds over k = 0, 1, ..., whatever the vectors' width: the same
// bits on all instruction sets that have them (AVX2 and better, NEON). Pure functions. Internal to
// engine/cpu.
#pragma once

#include <cstdint>

namespace dlpipe::engine::cpu {

/// The left side: element (i, k) at data + i * row + k * step.
struct BlockMatrix {
  const float* data = nullptr;
  int64_t row = 0, step = 1;
};

struct BlockProduct {
  /// Columns come in multiples of this.
  int64_t panel;
  /// Most columns that are computed together, one or two panels: `run` is at its best with multiples of it.
  int64_t wide;
  /// Rows that are computed together: `run` is at its best with multiples of it.
  int64_t rows;
  /// c[i, j] = (accumulate: c[i, j] +) sum over k < terms of a[i, k] b[k, j]; rows of b and c lie b_row and
  /// c_row apart, the columns of a row side by side.
  void (*run)(const BlockMatrix& a, const float* b, int64_t b_row, int64_t terms, float* c, int64_t c_row,
              int64_t rows, int64_t columns, bool accumulate);
  /// to[c * to_row + r] = from[r * from_row + c].
  void (*transpose)(const float* from, int64_t from_row, int64_t rows, int64_t columns, float* to,
                    int64_t to_row);
  /// to[r * to_row + c] = from[r * from_row + c] for short rows; what lies behind them, up to the next
  /// multiple of a vector, is read and written as well.
  void (*copy)(const float* from, int64_t from_row, int64_t rows, int64_t columns, float* to, int64_t to_row);
};
const BlockProduct& block_product();

}  // namespace dlpipe::engine::cpu
