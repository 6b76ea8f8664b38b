// The product of unit_kernels.h on bf16 images: dot products of pairs (AVX512_BF16), twice as many multiplications an
// instruction as f32 has. Sums, bias and activation are f32. Pure functions; any thread. Internal to engine/cpu.
#pragma once

#include <cstdint>

#include "dlpipe/base/dtype.h"
#include "dlpipe/engine/cpu/conv/unit_kernels.h"

namespace dlpipe::engine::cpu {

/// As UnitProduct; `terms` is even, and two terms of a column stand side by side in b.
struct UnitProductBf16 {
  const BFloat16* a = nullptr;
  int64_t a_row = 0, terms = 0;
  const BFloat16* b = nullptr;
  float* wide = nullptr;  // the answer, as f32,
  BFloat16* y = nullptr;  // or as bf16
  int64_t y_row = 0, rows = 0;
  int64_t first_vector = 0, last_vector = 0, columns = 0;
  UnitTail tail;                       // without a residual
  const BFloat16* residual = nullptr;  // of y
};

/// Whether this machine, and what kernels are limited to, has these.
bool has_unit_bf16();
void unit_product_bf16(const UnitProductBf16& product);

/// Rows of `columns`, their beginnings `from_row` and `to_row` elements apart.
struct UnitRows {
  int64_t rows = 0, columns = 0, from_row = 0, to_row = 0;
};
void widen_rows(const UnitRows& rows, const BFloat16* from, float* to);
/// Adds what lies at `residual` as at `to`, where it isn't null.
void narrow_rows(const UnitRows& rows, const float* from, const BFloat16* residual, BFloat16* to);

}  // namespace dlpipe::engine::cpu
