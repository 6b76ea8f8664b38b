// Products of small bf16 matrices that lie in a core's caches, with f32 sums: what attention in bf16 is made of, where the CPU
// has AVX512_BF16. One thread; large matrices are gemm.h's. Pure functions. Internal to engine/cpu.
#pragma once

#include <cstdint>

#include "dlpipe/base/dtype.h"

namespace dlpipe::engine::cpu {

/// Whether this machine, and what kernels are limited to, has these.
bool has_pair_products();

/// The right side: panels of 32 columns (16 where the last has no more), pair of terms after pair, zeros behind the last column
/// and the last term. Made by what follows.
struct PairPanels {
  int64_t terms = 0, columns = 0;

  int64_t even_terms() const { return (terms + 1) / 2 * 2; }
  int64_t padded_columns() const { return (columns + 15) / 16 * 16; }
  /// Of bf16 numbers.
  int64_t size() const { return even_terms() * padded_columns(); }
};
/// Term t of column c is from[t * from_row + c].
void pack_pairs(const BFloat16* from, int64_t from_row, const PairPanels& panels, BFloat16* to);
/// Term t of column c is from[c * from_row + t]. Terms and from_row are even numbers, and `from` is aligned to 4.
void pack_turned_pairs(const BFloat16* from, int64_t from_row, const PairPanels& panels, BFloat16* to);

/// y[r, c] = sum over t < terms of a[r, t] b[t, c].
struct PairProduct {
  const BFloat16* a = nullptr;  // rows, a_row elements apart
  int64_t a_row = 0, rows = 0;
  int64_t terms = 0;  // an even number, no more than b has
  const BFloat16* b = nullptr;
  PairPanels panels;
  int64_t columns = 0;    // the first ones of b
  float* wide = nullptr;  // the answer in f32, whole vectors of columns a row,
  BFloat16* y = nullptr;  // or in bf16
  int64_t y_row = 0;
};
void pair_product(const PairProduct& product);

}  // namespace dlpipe::engine::cpu
