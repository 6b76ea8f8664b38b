// The inner loop of bf16 products on CPUs with AVX512_BF16: dot products of pairs with sums in f32, twice as many
// multiplications per instruction as in f32. Uses intrinsics because Highway has this instruction only from 1.1 on and
// Debian 12 has 1.0. Internal to engine/cpu; x86 only.
#pragma once

#if !defined(__clang__)
#pragma GCC diagnostic ignored \
    "-Wmaybe-uninitialized"  // GCC 12's own intrinsics have undefined lanes on purpose
#endif
#include <immintrin.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "dlpipe/dtype.h"

#define DLPIPE_BF16_TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")))

namespace dlpipe::engine::cpu {

inline constexpr int64_t kPairLanes = 16;

/// A mask of the first `count` lanes: none if count <= 0, all from 16 on.
DLPIPE_BF16_TARGET inline __mmask16 first_lanes(int64_t count) {
  return static_cast<__mmask16>(count >= kPairLanes ? 0xffff : (1u << std::max<int64_t>(count, 0)) - 1);
}
DLPIPE_BF16_TARGET inline void store_narrowed(BFloat16* to, __mmask16 mask, __m512 value) {
  _mm256_mask_storeu_epi16(to, mask, reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(value)));
}

/// sums[r][w] += row r of a times vector w of b's columns. `terms` is even, and two terms of a column are adjacent in b.
template <int R, int W>
DLPIPE_BF16_TARGET __attribute__((always_inline)) inline void add_pairs(const BFloat16* a, int64_t a_row,
                                                                        int64_t terms, const BFloat16* b,
                                                                        __m512 (&sums)[R][W]) {
  for (int64_t k = 0; k < terms; k += 2, b += 2 * W * kPairLanes) {
    __m512bh pairs[W];
#pragma GCC unroll 16
    for (int w = 0; w < W; ++w)
      pairs[w] = reinterpret_cast<__m512bh>(_mm512_loadu_si512(b + 2 * w * kPairLanes));
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      int pair;
      std::memcpy(&pair, a + r * a_row + k, sizeof(pair));
      const auto factors = reinterpret_cast<__m512bh>(_mm512_set1_epi32(pair));
#pragma GCC unroll 16
      for (int w = 0; w < W; ++w) sums[r][w] = _mm512_dpbf16_ps(sums[r][w], factors, pairs[w]);
    }
  }
}

}  // namespace dlpipe::engine::cpu
