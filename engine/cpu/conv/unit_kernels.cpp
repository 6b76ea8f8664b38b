#include "engine/cpu/conv/unit_kernels.h"

#include <algorithm>

// Sums stay in registers, in blocks of a size known at compile time, which excludes SVE and RVV.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/cpu/conv/unit_kernels.cpp"
#include <hwy/foreach_target.h>  // NOLINT: includes this file once per target

#include <hwy/highway.h>

#include "engine/cpu/loops/within_isa.h"

HWY_BEFORE_NAMESPACE();
namespace dlpipe::engine::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// Rows per tile for panels of one, two and three vectors of columns: sums, factors and columns fill the registers.
constexpr int kRows[] = {0, HWY_TARGET <= HWY_AVX3 ? 12 : 6, HWY_TARGET <= HWY_AVX3 ? 12 : 6,
                         HWY_TARGET <= HWY_AVX3 ? 8 : 4};
// Loads the first `count` lanes and sets the others to 0. Memory after them is not accessed.
HWY_INLINE V load_some(D d, const float* from, size_t count) {
#if HWY_MEM_OPS_MIGHT_FAULT
  HWY_ALIGN float lanes[hn::MaxLanes(D())] = {};
  std::copy_n(from, std::min(count, hn::Lanes(d)), lanes);
  return hn::Load(d, lanes);
#else
  return hn::MaskedLoad(hn::FirstN(d, count), d, from);
#endif
}
HWY_INLINE void store_some(V value, D d, float* to, size_t count) {
#if HWY_MEM_OPS_MIGHT_FAULT
  HWY_ALIGN float lanes[hn::MaxLanes(D())];
  hn::Store(value, d, lanes);
  std::copy_n(lanes, std::min(count, hn::Lanes(d)), to);
#else
  hn::BlendedStore(value, hn::FirstN(d, count), d, to);
#endif
}

// 1 / x for x >= 1, rounded nearly like a division.
HWY_INLINE V reciprocal(D d, V x) {
#if HWY_ARCH_X86
  const V guess = hn::ApproximateReciprocal(x);  // 11 bits or more; a Newton step doubles them
  return hn::Mul(guess, hn::NegMulAdd(x, guess, hn::Set(d, 2.0f)));
#else
  return hn::Div(hn::Set(d, 1.0f), x);
#endif
}

// x / (1 + e^-x). The exponential is as precise as f32 needs wherever the result is neither x nor 0.
HWY_INLINE V silu_of(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  const V c = hn::Max(hn::Set(d, -87.0f), x);  // below -87 the result is less than 1e-35; NaN stays NaN
  const V t = hn::Min(hn::Set(d, 87.0f), c);   // above 87 the result is x
  // -t = n ln 2 - r with an integer n. Adding 1.5 * 2^23 + 127 puts n + 127, a float's exponent, into the low bits.
  const V round = hn::Set(d, 12583039.0f);
  const V shifted = hn::MulAdd(t, hn::Set(d, -1.44269504f), round);
  const V r = hn::MulAdd(hn::Sub(shifted, round), hn::Set(d, 0.69314718f), t);
  const hn::RebindToUnsigned<D> du;
  const V scale = hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(du, shifted)));
  // e^-r by its Taylor series. The next term is r^7 / 5040 < 1.2e-7.
  V e = hn::MulAdd(hn::Set(d, 1.0f / 720), r, hn::Set(d, -1.0f / 120));
  e = hn::MulAdd(e, r, hn::Set(d, 1.0f / 24));
  e = hn::MulAdd(e, r, hn::Set(d, -1.0f / 6));
  e = hn::MulAdd(e, r, hn::Set(d, 0.5f));
  e = hn::MulAdd(e, r, hn::Set(d, -1.0f));
  e = hn::MulAdd(e, r, one);
  return hn::Mul(c, reciprocal(d, hn::MulAdd(e, scale, one)));
}

// The bounds are the first operands, so that NaN stays NaN.
HWY_INLINE V clipped(V low, V high, V x) {
  return hn::Min(high, hn::Max(low, x));
}

// y = silu(sums) + residual, for `rows` rows of sums, each of whole vectors. The sums are on the stack, because in y they
// would wait for its cache lines. It is one loop over all rows, because rows are often one vector and constants would be
// reloaded for each.
HWY_NOINLINE void silu_rows(const float* sums, int64_t rows, int64_t columns, float* y, int64_t y_row,
                            const float* residual) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t vectors = (columns + lanes - 1) / lanes;
  int64_t at = 0;  // offset in y
  for (int64_t i = 0, j = 0; i < rows * vectors; ++i, sums += lanes) {
    V value = silu_of(d, hn::Load(d, sums));
    if (columns - j >= lanes) {
      if (residual != nullptr) value = hn::Add(value, hn::LoadU(d, residual + at));
      hn::StoreU(value, d, y + at);
    } else {
      const auto count = static_cast<size_t>(columns - j);
      if (residual != nullptr) value = hn::Add(value, load_some(d, residual + at, count));
      store_some(value, d, y + at, count);
    }
    j += lanes;
    at += lanes;
    if (j < columns) continue;
    at += y_row - vectors * lanes;
    j = 0;
  }
}

// R rows of W vectors of columns, of which `columns` exist. Not inlined, because with sanitizers compilers take hours for a
// function with all tiles.
template <int R, int W>
HWY_NOINLINE void product_tile(const UnitProduct& p, const float* a, const float* b, const float* bias,
                               float* y, const float* residual, int64_t columns) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  V sums[R][W];
#pragma GCC unroll 16
  for (int w = 0; w < W; ++w) {
    const V start = hn::LoadU(d, bias + w * lanes);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) sums[r][w] = start;
  }
  for (int64_t k = 0; k < p.terms; ++k, b += W * lanes) {
    V columns_of_b[W];
#pragma GCC unroll 16
    for (int w = 0; w < W; ++w) columns_of_b[w] = hn::LoadU(d, b + w * lanes);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      const V factor = hn::Set(d, a[r * p.a_row + k]);
#pragma GCC unroll 16
      for (int w = 0; w < W; ++w) sums[r][w] = hn::MulAdd(factor, columns_of_b[w], sums[r][w]);
    }
  }
  if (p.tail.silu) {
    // Vectors after the last column are skipped.
    HWY_ALIGN float stored[R * W * hn::MaxLanes(D())];
    const int64_t vectors = std::min<int64_t>(W, (columns + lanes - 1) / lanes);
#pragma GCC unroll 16
    for (int w = 0; w < W; ++w) {
      if (w >= vectors) break;
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) hn::Store(sums[r][w], d, stored + (r * vectors + w) * lanes);
    }
    return silu_rows(stored, R, columns, y, p.y_row, residual);
  }
  const V low = hn::Set(d, p.tail.low), high = hn::Set(d, p.tail.high);
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 16
    for (int w = 0; w < W; ++w) sums[r][w] = clipped(low, high, sums[r][w]);
  }
  if (columns == W * lanes) {
    if (residual != nullptr) {
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) {
#pragma GCC unroll 16
        for (int w = 0; w < W; ++w)
          sums[r][w] = hn::Add(sums[r][w], hn::LoadU(d, residual + r * p.y_row + w * lanes));
      }
    }
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 16
      for (int w = 0; w < W; ++w) hn::StoreU(sums[r][w], d, y + r * p.y_row + w * lanes);
    }
    return;
  }
  // The last panel may end within any of its vectors.
#pragma GCC unroll 16
  for (int w = 0; w < W; ++w) {
    const int64_t left = columns - w * lanes;
    if (left <= 0) break;
    const auto count = static_cast<size_t>(std::min(lanes, left));
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      V value = sums[r][w];
      if (residual != nullptr)
        value = hn::Add(value, load_some(d, residual + r * p.y_row + w * lanes, count));
      store_some(value, d, y + r * p.y_row + w * lanes, count);
    }
  }
}

template <int R, int W>
HWY_INLINE void product_of_rows(int rows, const UnitProduct& p, const float* a, const float* b,
                                const float* bias, float* y, const float* residual, int64_t columns) {
  if (rows == R) return product_tile<R, W>(p, a, b, bias, y, residual, columns);
  if constexpr (R > 1) product_of_rows<R - 1, W>(rows, p, a, b, bias, y, residual, columns);
}

// One panel of columns and all rows, in groups that are as even as possible.
template <int W>
HWY_NOINLINE void product_panel(const UnitProduct& p, int64_t vector) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(D()));
  const int64_t column = vector * lanes;
  const int64_t columns = std::min(W * lanes, p.columns - column);
  const int64_t offset = (vector - p.first_vector) * lanes;
  const float* const b = p.b + column * p.terms;
  const float* const residual = p.tail.residual == nullptr ? nullptr : p.tail.residual + offset;
  const int64_t groups = (p.rows + kRows[W] - 1) / kRows[W];
  for (int64_t group = 0, row = 0; group < groups; ++group) {
    const int64_t next = (group + 1) * p.rows / groups, rows = next - row;
    float* const y = p.y + row * p.y_row + offset;
    const float* const to_add = residual == nullptr ? nullptr : residual + row * p.y_row;
    product_of_rows<kRows[W], W>(static_cast<int>(rows), p, p.a + row * p.a_row, b, p.tail.bias + column, y,
                                 to_add, columns);
    row = next;
  }
}

void UnitProducts(const UnitProduct& p) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(D()));
  const int64_t vectors = (p.columns + lanes - 1) / lanes;
  for (int64_t vector = p.first_vector; vector < p.last_vector;) {
    const int64_t width = unit_panel(vectors - vector);
    if (width == 3) product_panel<3>(p, vector);
    if (width == 2) product_panel<2>(p, vector);
    if (width == 1) product_panel<1>(p, vector);
    vector += width;
  }
}

// A depthwise convolution for one vector of channels, or for the first lanes of one.
template <bool kWhole>
class DepthwiseChannels {
 public:
  HWY_INLINE DepthwiseChannels(const UnitDepthwise& p, int64_t channel)
      : p_(p), channel_(channel), count_(static_cast<size_t>(p.last_channel - channel)) {}

  HWY_INLINE void run() const {
    for (int64_t i = 0; i < p_.piece_count; ++i) {
      const UnitPiece& piece = p_.pieces[i];
      const int64_t columns = piece.stride == 0 ? 0 : p_.filter_columns;
      if (columns == 3 && piece.stride == 1) {
        some<kUnitPixels, 3, 1>(piece);
      } else if (columns == 3) {
        some<kUnitPixels, 3, 2>(piece);
      } else if (columns == 5 && piece.stride == 1) {
        some<kUnitPixels, 5, 1>(piece);
      } else if (columns == 5) {
        some<kUnitPixels, 5, 2>(piece);
      } else if (columns == 7 && piece.stride == 1) {
        some<kUnitPixels, 7, 1>(piece);
      } else {
        some<kUnitPixels, 0, 0>(piece);
      }
    }
  }

 private:
  // A piece of R pixels, kStride taps apart, with kColumns taps per row. If kColumns is 0, the piece has these numbers.
  template <int R, int kColumns, int kStride>
  HWY_INLINE void some(const UnitPiece& piece) const {
    if (piece.count == R) return repeated<R, kColumns, kStride>(piece);
    if constexpr (R > 1) some<R - 1, kColumns, kStride>(piece);
  }

  // Not inlined, for the same reason as product_tile.
  template <int R, int kColumns, int kStride>
  HWY_NOINLINE void repeated(const UnitPiece& piece) const {
    for (int64_t i = 0; i < piece.repeats; ++i)
      sums_of<R, kColumns, kStride>(piece, piece.x + i * piece.x_repeat, piece.y + i * piece.y_repeat);
  }

  HWY_INLINE V load(const float* from) const {
    const D d;
    if constexpr (kWhole) return hn::LoadU(d, from);
    return load_some(d, from, count_);
  }

  // Adds one row of taps; loads each input element once.
  template <int R, int kColumns, int kStride>
  HWY_INLINE void add_row(const float* from, const float* weights, V (&sums)[R]) const {
    const D d;
    V taps[kColumns];
#pragma GCC unroll 16
    for (int k = 0; k < kColumns; ++k) taps[k] = hn::LoadU(d, weights + k * p_.weights_row);
#pragma GCC unroll 32
    for (int j = 0; j < (R - 1) * kStride + kColumns; ++j, from += p_.tap_column) {
      const V x = load(from);
#pragma GCC unroll 16
      for (int k = 0; k < kColumns; ++k) {
        const int r = (j - k) / kStride;
        if (j >= k && (j - k) % kStride == 0 && r < R) sums[r] = hn::MulAdd(taps[k], x, sums[r]);
      }
    }
  }

  // Adds one row of taps, tap by tap.
  template <int R>
  HWY_INLINE void add_taps(const UnitPiece& piece, const float* from, const float* weights,
                           V (&sums)[R]) const {
    const D d;
    from += piece.columns.from * p_.tap_column;
    weights += piece.columns.from * p_.weights_row;
    for (int64_t kx = piece.columns.from; kx < piece.columns.to; ++kx) {
      const V weight = hn::LoadU(d, weights);
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) sums[r] = hn::MulAdd(weight, load(from + r * piece.x_step), sums[r]);
      from += p_.tap_column;
      weights += p_.weights_row;
    }
  }

  template <int R, int kColumns, int kStride>
  HWY_INLINE void sums_of(const UnitPiece& piece, int64_t x_at, int64_t y_at) const {
    const D d;
    V sums[R];
    const V bias = hn::LoadU(d, p_.tail.bias + channel_);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) sums[r] = bias;
    for (int64_t ky = piece.rows.from; ky < piece.rows.to; ++ky) {
      const float* const from = p_.x + channel_ + x_at + ky * p_.tap_row;
      const float* const weights = p_.weights + channel_ + ky * p_.filter_columns * p_.weights_row;
      if constexpr (kColumns == 0) {
        add_taps<R>(piece, from, weights, sums);
      } else {
        add_row<R, kColumns, kStride>(from, weights, sums);
      }
    }
    const float* const residual = p_.tail.residual == nullptr ? nullptr : p_.tail.residual + channel_ + y_at;
    float* const y = p_.y + channel_ + y_at;
    if (p_.tail.silu) {
      HWY_ALIGN float stored[R * hn::MaxLanes(D())];
      const auto lanes = static_cast<int64_t>(hn::Lanes(d));
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) hn::Store(sums[r], d, stored + r * lanes);
      return silu_rows(stored, R, std::min(lanes, p_.last_channel - channel_), y, piece.y_step, residual);
    }
    const V low = hn::Set(d, p_.tail.low), high = hn::Set(d, p_.tail.high);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) sums[r] = clipped(low, high, sums[r]);
    if (residual != nullptr) {
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) sums[r] = hn::Add(sums[r], load(residual + r * piece.y_step));
    }
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      if constexpr (kWhole) {
        hn::StoreU(sums[r], d, y + r * piece.y_step);
      } else {
        store_some(sums[r], d, y + r * piece.y_step, count_);
      }
    }
  }

  const UnitDepthwise& p_;
  int64_t channel_;
  size_t count_;
};

void UnitDepthwises(const UnitDepthwise& p) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(D()));
  int64_t channel = p.first_channel;
  for (; channel + lanes <= p.last_channel; channel += lanes) DepthwiseChannels<true>(p, channel).run();
  if (channel < p.last_channel) DepthwiseChannels<false>(p, channel).run();
}

const UnitKernels* KernelsOfUnits() {
  static const UnitKernels kernels = {static_cast<int64_t>(hn::Lanes(D())), UnitProducts, UnitDepthwises,
                                      silu_rows};
  return &kernels;
}

}  // namespace HWY_NAMESPACE
}  // namespace dlpipe::engine::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dlpipe::engine::cpu {

HWY_EXPORT(KernelsOfUnits);

const UnitKernels& unit_kernels() {
  return *dispatch_within_isa(HWY_DISPATCH_TABLE(KernelsOfUnits))();
}

}  // namespace dlpipe::engine::cpu
#endif
