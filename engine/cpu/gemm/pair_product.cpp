#include "engine/cpu/gemm/pair_product.h"

#include "engine/core/isa.h"
#include "engine/core/kernel_table.h"

#if defined(__x86_64__)

#include "engine/cpu/gemm/block_product.h"
#include "engine/cpu/gemm/pair_sums.h"

namespace dlpipe::engine::cpu {

namespace {

constexpr int kPairRows = 12;

template <int R, int W>
DLPIPE_BF16_TARGET __attribute__((noinline)) void pair_tile(const PairProduct& p, int64_t row,
                                                            int64_t column) {
  __m512 sums[R][W];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
    for (int w = 0; w < W; ++w) sums[r][w] = _mm512_setzero_ps();
  }
  add_pairs<R, W>(p.a + row * p.a_row, p.a_row, p.terms, p.b + column * p.panels.even_terms(), sums);
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
    for (int w = 0; w < W; ++w) {
      const int64_t first = column + w * kPairLanes, at = (row + r) * p.y_row + first;
      if (p.wide != nullptr) {
        _mm512_storeu_ps(p.wide + at, sums[r][w]);
      } else {
        store_narrowed(p.y + at, first_lanes(p.columns - first), sums[r][w]);
      }
    }
  }
}

template <int R, int W>
void pair_tile_of_rows(int64_t rows, const PairProduct& p, int64_t row, int64_t column) {
  if (rows >= R) return pair_tile<R, W>(p, row, column);
  if constexpr (R > 1) pair_tile_of_rows<R - 1, W>(rows, p, row, column);
}

int64_t panel_columns(const PairPanels& panels, int64_t column) {
  return panels.padded_columns() - column > kPairLanes ? 2 * kPairLanes : kPairLanes;
}

}  // namespace

bool has_pair_products() {
  return kernel_isa() >= KernelIsa::kAvx512Bf16 && isa() >= Isa::kAvx512;
}

void pack_pairs(const BFloat16* from, int64_t from_row, const PairPanels& panels, BFloat16* to) {
  for (int64_t column = 0; column < panels.columns;) {
    const int64_t wide = panel_columns(panels, column);
    const int64_t there = std::min(wide, panels.columns - column);
    for (int64_t t = 0; t < panels.even_terms(); t += 2, to += 2 * wide) {
      const BFloat16* const first = from + t * from_row + column;
      const BFloat16* const second = t + 1 < panels.terms ? first + from_row : nullptr;
      for (int64_t c = 0; c < there; ++c) {
        to[2 * c] = first[c];
        to[2 * c + 1] = second == nullptr ? BFloat16() : second[c];
      }
      std::fill(to + 2 * there, to + 2 * wide, BFloat16());
    }
    column += wide;
  }
}

// Moves a pair of terms as one float.
void pack_turned_pairs(const BFloat16* from, int64_t from_row, const PairPanels& panels, BFloat16* to) {
  for (int64_t column = 0; column < panels.columns;) {
    const int64_t wide = panel_columns(panels, column);
    const int64_t there = std::min(wide, panels.columns - column);
    block_product().transpose(reinterpret_cast<const float*>(from + column * from_row), from_row / 2, there,
                              panels.terms / 2, reinterpret_cast<float*>(to), wide);
    for (int64_t t = 0; t < panels.terms; t += 2, to += 2 * wide)
      std::fill(to + 2 * there, to + 2 * wide, BFloat16());
    column += wide;
  }
}

void pair_product(const PairProduct& p) {
  for (int64_t column = 0; column < p.columns;) {
    const int64_t wide = panel_columns(p.panels, column);
    for (int64_t row = 0; row < p.rows; row += kPairRows) {
      if (wide == kPairLanes) {
        pair_tile_of_rows<kPairRows, 1>(p.rows - row, p, row, column);
      } else {
        pair_tile_of_rows<kPairRows, 2>(p.rows - row, p, row, column);
      }
    }
    column += wide;
  }
}

}  // namespace dlpipe::engine::cpu

#else

namespace dlpipe::engine::cpu {

bool has_pair_products() {
  return false;
}
void pack_pairs(const BFloat16* /*from*/, int64_t /*from_row*/, const PairPanels& /*panels*/,
                BFloat16* /*to*/) {}
void pack_turned_pairs(const BFloat16* /*from*/, int64_t /*from_row*/, const PairPanels& /*panels*/,
                       BFloat16* /*to*/) {}
void pair_product(const PairProduct& /*product*/) {}

}  // namespace dlpipe::engine::cpu

#endif
