#include "dlpipe/engine/cpu/gemm/block_product.h"

// Sums stay in registers, in a block as wide as two vectors, whose length is known when compiling: not so for SVE and RVV.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "dlpipe/engine/cpu/gemm/block_product.cpp"
#include <hwy/foreach_target.h>  // NOLINT: includes this file once a target

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace dlpipe::engine::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
// Two vectors of columns, and the rows held in registers beside them.
constexpr int64_t kPanel = 2 * static_cast<int64_t>(hn::MaxLanes(D()));
constexpr int kRows = HWY_TARGET <= HWY_AVX3 ? 12 : 6;

// c[r, 0..panel) (+)= sum over k of a[r * a_row + k * a_step] b[k * b_row, 0..panel), r < R.
template <int R, bool kFresh>
HWY_INLINE void product(const float* a, int64_t a_row, int64_t a_step, const float* b, int64_t b_row,
                        int64_t terms, float* c, int64_t c_row) {
  const D d;
  const size_t lanes = hn::Lanes(d);
  V sums[R][2];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
    sums[r][0] = kFresh ? hn::Zero(d) : hn::LoadU(d, c + r * c_row);
    sums[r][1] = kFresh ? hn::Zero(d) : hn::LoadU(d, c + r * c_row + lanes);
  }
  for (int64_t k = 0; k < terms; ++k, a += a_step, b += b_row) {
    const V b0 = hn::LoadU(d, b), b1 = hn::LoadU(d, b + lanes);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      const V factor = hn::Set(d, a[r * a_row]);
      sums[r][0] = hn::MulAdd(factor, b0, sums[r][0]);
      sums[r][1] = hn::MulAdd(factor, b1, sums[r][1]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
    hn::StoreU(sums[r][0], d, c + r * c_row);
    hn::StoreU(sums[r][1], d, c + r * c_row + lanes);
  }
}

// The last `rows` < R + 1, all in one go.
template <int R, bool kFresh>
HWY_INLINE void product_rest(const float* a, int64_t a_row, int64_t a_step, const float* b, int64_t b_row,
                             int64_t terms, float* c, int64_t c_row, int64_t rows) {
  if (rows == R) return product<R, kFresh>(a, a_row, a_step, b, b_row, terms, c, c_row);
  if constexpr (R > 1) product_rest<R - 1, kFresh>(a, a_row, a_step, b, b_row, terms, c, c_row, rows);
}

template <bool kFresh>
HWY_NOINLINE void product_rows(const float* a, int64_t a_row, int64_t a_step, const float* b, int64_t b_row,
                               int64_t terms, float* c, int64_t c_row, int64_t rows) {
  for (; rows >= kRows; rows -= kRows, a += kRows * a_row, c += kRows * c_row) {
    product<kRows, kFresh>(a, a_row, a_step, b, b_row, terms, c, c_row);
  }
  product_rest<kRows - 1, kFresh>(a, a_row, a_step, b, b_row, terms, c, c_row, rows);
}

void Run(const BlockMatrix& a, const float* b, int64_t b_row, int64_t terms, float* c, int64_t c_row,
         int64_t rows, int64_t columns, bool accumulate) {
  for (int64_t column = 0; column < columns; column += kPanel) {
    if (accumulate) {
      product_rows<false>(a.data, a.row, a.step, b + column, b_row, terms, c + column, c_row, rows);
    } else {
      product_rows<true>(a.data, a.row, a.step, b + column, b_row, terms, c + column, c_row, rows);
    }
  }
}

void Transpose(const float* from, int64_t from_row, int64_t rows, int64_t columns, float* to,
               int64_t to_row) {
  int64_t r = 0;
#if HWY_TARGET != HWY_SCALAR
  // Squares of four, whose rows' halves change places twice: elements, then pairs.
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
  static constexpr BlockProduct kProduct = {kPanel, kRows, Run, Transpose, Copy};
  return &kProduct;
}

}  // namespace HWY_NAMESPACE
}  // namespace dlpipe::engine::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dlpipe::engine::cpu {

HWY_EXPORT(Product);

const BlockProduct& block_product() {
  return *HWY_DYNAMIC_DISPATCH(Product)();
}

}  // namespace dlpipe::engine::cpu
#endif
