#include "engine/cpu/gemm/block_product.h"

// Sums stay in registers, in a block two or four vectors wide, whose length must be known at compile time. SVE and RVV are
// excluded because theirs is not.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/cpu/gemm/block_product.cpp"
#include <hwy/foreach_target.h>  // NOLINT: includes this file once per target

#include <hwy/highway.h>

#include "engine/cpu/loops/within_isa.h"

HWY_BEFORE_NAMESPACE();
namespace dlpipe::engine::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(D()));
constexpr int64_t kPanel = 2 * kLanes;
constexpr int kRows = HWY_TARGET <= HWY_AVX3 ? 12 : 6;  // held in registers together with a panel
// With 32 registers, six rows by four vectors are as many sums as twelve rows by two, and faster if there are enough
// columns: twelve rows whose distance is a power of two conflict in a set of the first-level cache, six don't. 197x768x3072
// took 0.83 of the time on a Zen 4.
constexpr int64_t kWide = HWY_TARGET <= HWY_AVX3 ? 4 * kLanes : kPanel;
constexpr int kWideRows = 6;
// Terms per unrolled loop step. Without unrolling, four of a step's 24 instructions (six rows of two vectors) would be loop
// overhead.
constexpr int kTermsAtOnce = HWY_TARGET <= HWY_AVX3 ? 1 : 4;

// c[r, 0..V vectors) (+)= sum over k of a[r * a_row + k * a_step] b[k * b_row, 0..V vectors), r < R.
template <int R, int V, bool kFresh>
HWY_INLINE void product(const BlockMatrix& a, const float* b, int64_t b_row, int64_t terms, float* c,
                        int64_t c_row) {
  const D d;
  hn::Vec<D> sums[R][V];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) sums[r][v] = kFresh ? hn::Zero(d) : hn::LoadU(d, c + r * c_row + v * kLanes);
  }
  const float* left = a.data;
#pragma GCC unroll kTermsAtOnce
  for (int64_t k = 0; k < terms; ++k, left += a.step, b += b_row) {
    hn::Vec<D> right[V];
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) right[v] = hn::LoadU(d, b + v * kLanes);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      const auto factor = hn::Set(d, left[r * a.row]);
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) sums[r][v] = hn::MulAdd(factor, right[v], sums[r][v]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) hn::StoreU(sums[r][v], d, c + r * c_row + v * kLanes);
  }
}

// The last `rows` <= R rows, in one call.
template <int R, int V, bool kFresh>
HWY_INLINE void product_rest(const BlockMatrix& a, const float* b, int64_t b_row, int64_t terms, float* c,
                             int64_t c_row, int64_t rows) {
  if (rows == R) return product<R, V, kFresh>(a, b, b_row, terms, c, c_row);
  if constexpr (R > 1) product_rest<R - 1, V, kFresh>(a, b, b_row, terms, c, c_row, rows);
}

template <int R, int V, bool kFresh>
HWY_NOINLINE void product_rows(BlockMatrix a, const float* b, int64_t b_row, int64_t terms, float* c,
                               int64_t c_row, int64_t rows) {
  for (; rows >= R; rows -= R, a.data += R * a.row, c += R * c_row)
    product<R, V, kFresh>(a, b, b_row, terms, c, c_row);
  product_rest<R - 1, V, kFresh>(a, b, b_row, terms, c, c_row, rows);
}

template <bool kFresh>
void product_columns(const BlockMatrix& a, const float* b, int64_t b_row, int64_t terms, float* c,
                     int64_t c_row, int64_t rows, int64_t columns) {
  int64_t column = 0;
  if constexpr (kWide > kPanel) {
    for (; column + kWide <= columns; column += kWide)
      product_rows<kWideRows, 4, kFresh>(a, b + column, b_row, terms, c + column, c_row, rows);
  }
  for (; column < columns; column += kPanel)
    product_rows<kRows, 2, kFresh>(a, b + column, b_row, terms, c + column, c_row, rows);
}

void Run(const BlockMatrix& a, const float* b, int64_t b_row, int64_t terms, float* c, int64_t c_row,
         int64_t rows, int64_t columns, bool accumulate) {
  if (accumulate) return product_columns<false>(a, b, b_row, terms, c, c_row, rows, columns);
  product_columns<true>(a, b, b_row, terms, c, c_row, rows, columns);
}

void Transpose(const float* from, int64_t from_row, int64_t rows, int64_t columns, float* to,
               int64_t to_row) {
  int64_t r = 0;
#if HWY_TARGET != HWY_SCALAR
  // Transposes 4x4 squares in two steps: elements, then pairs.
  const hn::FixedTag<float, 4> d;
  const hn::FixedTag<double, 2> dd;
  for (; r + 4 <= rows; r += 4) {
    const float* const in = from + r * from_row;
    int64_t c = 0;
    for (; c + 4 <= columns; c += 4) {
      const auto a = hn::LoadU(d, in + c), b = hn::LoadU(d, in + from_row + c);
      const auto e = hn::LoadU(d, in + 2 * from_row + c), f = hn::LoadU(d, in + 3 * from_row + c);
      const auto ab0 = hn::BitCast(dd, hn::InterleaveLower(d, a, b)),
                 ab1 = hn::BitCast(dd, hn::InterleaveUpper(d, a, b));
      const auto ef0 = hn::BitCast(dd, hn::InterleaveLower(d, e, f)),
                 ef1 = hn::BitCast(dd, hn::InterleaveUpper(d, e, f));
      float* const out = to + c * to_row + r;
      hn::StoreU(hn::BitCast(d, hn::InterleaveLower(dd, ab0, ef0)), d, out);
      hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(dd, ab0, ef0)), d, out + to_row);
      hn::StoreU(hn::BitCast(d, hn::InterleaveLower(dd, ab1, ef1)), d, out + 2 * to_row);
      hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(dd, ab1, ef1)), d, out + 3 * to_row);
    }
    for (; c < columns; ++c) {
      for (int64_t i = 0; i < 4; ++i) to[c * to_row + r + i] = in[i * from_row + c];
    }
  }
#endif
  for (; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) to[c * to_row + r] = from[r * from_row + c];
  }
}

void Copy(const float* from, int64_t from_row, int64_t rows, int64_t columns, float* to, int64_t to_row) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t r = 0; r < rows; ++r, from += from_row, to += to_row) {
    for (int64_t c = 0; c < columns; c += lanes) hn::StoreU(hn::LoadU(d, from + c), d, to + c);
  }
}

const BlockProduct* Product() {
  static constexpr BlockProduct kProduct = {kPanel, kWide, kRows, Run, Transpose, Copy};
  return &kProduct;
}

}  // namespace HWY_NAMESPACE
}  // namespace dlpipe::engine::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dlpipe::engine::cpu {

HWY_EXPORT(Product);

const BlockProduct& block_product() {
  return *dispatch_within_isa(HWY_DISPATCH_TABLE(Product))();
}

}  // namespace dlpipe::engine::cpu
#endif
