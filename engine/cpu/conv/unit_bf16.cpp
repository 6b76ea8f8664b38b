#include "engine/cpu/conv/unit_kernels.h"

#include <algorithm>

#include "engine/core/kernel_table.h"

#if defined(__x86_64__)

#include "engine/cpu/gemm/pair_sums.h"

namespace dlpipe::engine::cpu {

namespace {

constexpr int64_t kUnitLanes = kPairLanes;
// Rows per tile for panels of one, two and three vectors of columns, as in unit_kernels.cpp.
constexpr int kRows[] = {0, 12, 12, 8};

DLPIPE_BF16_TARGET inline __m512 widened(const BFloat16* from, __mmask16 mask) {
  return _mm512_castsi512_ps(
      _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, from)), 16));
}
// R rows of W vectors of columns, of which `columns` exist. y_at: the tile's offset in the result.
template <int R, int W>
DLPIPE_BF16_TARGET __attribute__((noinline)) void tile(const UnitProductBf16& p, const BFloat16* a,
                                                       const BFloat16* b, const float* bias, int64_t y_at,
                                                       int64_t columns) {
  __m512 sums[R][W];
#pragma GCC unroll 16
  for (int w = 0; w < W; ++w) {
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) sums[r][w] = _mm512_loadu_ps(bias + w * kUnitLanes);
  }
  add_pairs<R, W>(a, p.a_row, p.terms, b, sums);
  if (p.tail.silu) {
    // Vectors after the last column are skipped.
    alignas(64) float stored[R * W * kUnitLanes];
    const int64_t vectors = std::min<int64_t>(W, (columns + kUnitLanes - 1) / kUnitLanes),
                  row = vectors * kUnitLanes;
#pragma GCC unroll 16
    for (int w = 0; w < W; ++w) {
      if (w >= vectors) break;
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) _mm512_store_ps(stored + r * row + w * kUnitLanes, sums[r][w]);
    }
    if (p.wide != nullptr) return unit_kernels().silu(stored, R, columns, p.wide + y_at, p.y_row, nullptr);
    unit_kernels().silu(stored, R, row, stored, row, nullptr);
    return narrow_rows({R, columns, row, p.y_row}, stored,
                       p.residual == nullptr ? nullptr : p.residual + y_at, p.y + y_at);
  }
  const __m512 low = _mm512_set1_ps(p.tail.low), high = _mm512_set1_ps(p.tail.high);
#pragma GCC unroll 16
  for (int w = 0; w < W; ++w) {
    const __mmask16 mask = first_lanes(columns - w * kUnitLanes);
    if (mask == 0) break;
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      // The bounds are the first operands, so that NaN stays NaN.
      __m512 value = _mm512_min_ps(high, _mm512_max_ps(low, sums[r][w]));
      const int64_t at = y_at + r * p.y_row + w * kUnitLanes;
      if (p.wide != nullptr) {
        _mm512_mask_storeu_ps(p.wide + at, mask, value);
      } else {
        if (p.residual != nullptr) value = _mm512_add_ps(value, widened(p.residual + at, mask));
        store_narrowed(p.y + at, mask, value);
      }
    }
  }
}

template <int R, int W>
void tile_of_rows(int rows, const UnitProductBf16& p, const BFloat16* a, const BFloat16* b, const float* bias,
                  int64_t y_at, int64_t columns) {
  if (rows == R) return tile<R, W>(p, a, b, bias, y_at, columns);
  if constexpr (R > 1) tile_of_rows<R - 1, W>(rows, p, a, b, bias, y_at, columns);
}

// One panel of columns and all rows, in groups that are as even as possible.
template <int W>
void panel(const UnitProductBf16& p, int64_t vector) {
  const int64_t column = vector * kUnitLanes;
  const int64_t columns = std::min(W * kUnitLanes, p.columns - column);
  const int64_t offset = (vector - p.first_vector) * kUnitLanes;
  const int64_t groups = (p.rows + kRows[W] - 1) / kRows[W];
  for (int64_t group = 0, row = 0; group < groups; ++group) {
    const int64_t next = (group + 1) * p.rows / groups;
    tile_of_rows<kRows[W], W>(static_cast<int>(next - row), p, p.a + row * p.a_row, p.b + column * p.terms,
                              p.tail.bias + column, row * p.y_row + offset, columns);
    row = next;
  }
}

}  // namespace

bool has_unit_bf16() {
  return kernel_isa() >= KernelIsa::kAvx512Bf16 && unit_kernels().lanes == kUnitLanes;
}

void unit_product_bf16(const UnitProductBf16& p) {
  const int64_t vectors = (p.columns + kUnitLanes - 1) / kUnitLanes;
  for (int64_t vector = p.first_vector; vector < p.last_vector;) {
    const int64_t width = unit_panel(vectors - vector);
    if (width == 3) panel<3>(p, vector);
    if (width == 2) panel<2>(p, vector);
    if (width == 1) panel<1>(p, vector);
    vector += width;
  }
}

DLPIPE_BF16_TARGET void widen_rows(const UnitRows& rows, const BFloat16* from, float* to) {
  for (int64_t r = 0; r < rows.rows; ++r, from += rows.from_row, to += rows.to_row) {
    for (int64_t i = 0; i < rows.columns; i += kUnitLanes) {
      const __mmask16 mask = first_lanes(rows.columns - i);
      _mm512_mask_storeu_ps(to + i, mask, widened(from + i, mask));
    }
  }
}

DLPIPE_BF16_TARGET void narrow_rows(const UnitRows& rows, const float* from, const BFloat16* residual,
                                    BFloat16* to) {
  for (int64_t r = 0; r < rows.rows; ++r) {
    const float* const row = from + r * rows.from_row;
    for (int64_t i = 0; i < rows.columns; i += kUnitLanes) {
      const __mmask16 mask = first_lanes(rows.columns - i);
      const int64_t at = r * rows.to_row + i;
      __m512 value = _mm512_maskz_loadu_ps(mask, row + i);
      if (residual != nullptr) value = _mm512_add_ps(value, widened(residual + at, mask));
      store_narrowed(to + at, mask, value);
    }
  }
}

}  // namespace dlpipe::engine::cpu

#else

namespace dlpipe::engine::cpu {

bool has_unit_bf16() {
  return false;
}
void unit_product_bf16(const UnitProductBf16& /*product*/) {}
void widen_rows(const UnitRows& /*rows*/, const BFloat16* /*from*/, float* /*to*/) {}
void narrow_rows(const UnitRows& /*rows*/, const float* /*from*/, const BFloat16* /*residual*/,
                 BFloat16* /*to*/) {}

}  // namespace dlpipe::engine::cpu

#endif
