// Products of small bf16 matrices in a core's caches, with f32 sums; used by attention in bf16 if the CPU has AVX512_BF16.
// One thread; for large matrices see gemm.h. Pure functions. Internal to engine/cpu.
#pragma once

#include <cstdint>

#include "dlpipe/dtype.h"

namespace dlpipe::engine::cpu {

/// Whether this machine has these kernels, within kernel_isa().
bool has_pair_products();

/// The right operand, as the functions below pack it: panels of 32 columns (16 if the last has no more), one pair of terms
/// after another, with zeros after the last column and the last term.
struct PairPanels {
  int64_t terms = 0, columns = 0;

  int64_t even_terms() const { return (terms + 1) / 2 * 2; }
  int64_t padded_columns() const { return (columns + 15) / 16 * 16; }
  /// The number of bf16 elements.
  int64_t size() const { return even_terms() * padded_columns(); }
};
/// Packs a matrix whose term t of column c is from[t * from_row + c].
void pack_pairs(const BFloat16* from, int64_t from_row, const PairPanels& panels, BFloat16* to);
/// Packs a matrix whose term t of column c is from[c * from_row + t]. `terms` and from_row are even; `from` is aligned to 4
/// bytes.
void pack_turned_pairs(const BFloat16* from, int64_t from_row, const PairPanels& panels, BFloat16* to);

/// y[r, c] = sum over t < terms of a[r, t] b[t, c].
struct PairProduct {
  const BFloat16* a = nullptr;  // rows, a_row elements apart
  int64_t a_row = 0, rows = 0;
  int64_t terms = 0;  // an even number, at most that of b
  const BFloat16* b = nullptr;
  PairPanels panels;
  int64_t columns = 0;    // how many columns of b are used
  float* wide = nullptr;  // the result in f32, with whole vectors of columns per row,
  BFloat16* y = nullptr;  // or in bf16
  int64_t y_row = 0;
};
void pair_product(const PairProduct& product);

}  // namespace dlpipe::engine::cpu
