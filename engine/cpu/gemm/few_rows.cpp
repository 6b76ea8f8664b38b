#include "dlpipe/engine/cpu/gemm/few_rows.h"

#include <algorithm>

#include "dlpipe/engine/core/isa.h"
#include "dlpipe/engine/core/parallel.h"
#include "dlpipe/engine/cpu/loops/vec.h"

namespace dlpipe::engine::cpu {
namespace {

constexpr int64_t kSliceFloats = 1 << 16;  // of b: ten microseconds and more
constexpr int64_t kVectors = 4;            // sums of one element that run beside one another

// M elements of one column of c: M products of a row of a and one of b's, in 32 lanes, added up in order.
template <int M>
DLPIPE_INLINE inline void column(const float* a, const float* b, int64_t k, float start, float* c,
                                 int64_t n) {
  F32x8 sums[M][kVectors] = {};
  int64_t i = 0;
  for (; i + kVectors * kLanes <= k; i += kVectors * kLanes) {
    for (int64_t v = 0; v < kVectors; ++v) {
      const F32x8 factor = load(b + i + v * kLanes);
      for (int r = 0; r < M; ++r) sums[r][v] += load(a + r * k + i + v * kLanes) * factor;
    }
  }
  for (int r = 0; r < M; ++r) {
    const F32x8 all_lanes = (sums[r][0] + sums[r][1]) + (sums[r][2] + sums[r][3]);
    float sum = start;
    for (int64_t lane = 0; lane < kLanes; ++lane) sum += all_lanes[lane];
    for (int64_t rest = i; rest < k; ++rest) sum += a[r * k + rest] * b[rest];
    c[r * n] = sum;
  }
}

template <int M>
void columns(int64_t n, int64_t k, const float* a, const float* b, const float* bias, float* c,
             const GemmPartDone& done) {
  parallel_ranges(n, std::max<int64_t>(1, kSliceFloats / k), [&](int64_t begin, int64_t end) {
    on_best_isa([=]() DLPIPE_INLINE {
      for (int64_t j = begin; j < end; ++j)
        column<M>(a, b + j * k, k, bias == nullptr ? 0.0f : bias[j], c + j, n);
    });
    if (done) done(0, M, begin, end - begin);
  });
}

}  // namespace

void few_rows_gemm(int64_t m, int64_t n, int64_t k, const float* a, const float* b, const float* bias,
                   float* c, const GemmPartDone& done) {
  static_assert(kMostFewRows == 4);
  if (m == 1) columns<1>(n, k, a, b, bias, c, done);
  if (m == 2) columns<2>(n, k, a, b, bias, c, done);
  if (m == 3) columns<3>(n, k, a, b, bias, c, done);
  if (m == 4) columns<4>(n, k, a, b, bias, c, done);
}

}  // namespace dlpipe::engine::cpu
