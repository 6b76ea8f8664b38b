// The inner loops of conv_unit on plain f32 images, in Highway, chosen at run time for the CPU: products of pixels and
// weights (1x1 convolutions; other convolutions as rows of windows) and depthwise convolutions. Bias, activation and
// residual are applied to the sums in registers. conv_unit.cpp cuts the work.
//
// Every sum is one chain of fused multiply-adds in the order of the terms, for any cut of the work. Pure functions; any
// thread. Internal to engine/cpu.
#pragma once

#include <array>
#include <cstdint>

#include "dlpipe/dtype.h"

namespace dlpipe::engine::cpu {

/// Applied to each sum, which starts with the bias: a clip (with infinite bounds: nothing) or silu, then the residual is added.
struct UnitTail {
  const float* bias = nullptr;  // padded to whole vectors
  float low = 0, high = 0;
  bool silu = false;
  const float* residual = nullptr;  // has y's layout, or is null
};

/// The columns of a product are in panels of one to three vectors. Returns the width of the next panel if `left` vectors
/// are left. Four vectors are split into two and two, because a panel of one needs a load for each multiply-add.
constexpr int64_t unit_panel(int64_t left) {
  return left == 4 ? 2 : left < 3 ? left : 3;
}

/// y[r, j] = tail(sum over k of a[r, k] b[k, j]). b has one panel after another: the panel of vector v begins at b + v *
/// lanes * terms. A panel has term after term, with its columns side by side, and zeros after the last column.
struct UnitProduct {
  const float* a = nullptr;
  int64_t a_row = 0, terms = 0;
  const float* b = nullptr;
  float* y = nullptr;
  int64_t y_row = 0, rows = 0;
  int64_t first_vector = 0, last_vector = 0;  // of columns; panels begin and end here
  int64_t columns = 0;                        // in all vectors
  UnitTail tail;                              // y and residual point to first_vector
};

/// The taps [from, to) along one side of a filter that are inside the image.
struct UnitTaps {
  int64_t from = 0, to = 0;
};

/// Up to kUnitPixels output pixels of a depthwise convolution, in a row or a column, that have the same taps. Offsets and
/// steps are in elements. x is the position of the first pixel's first tap, which may be outside of the image.
inline constexpr int64_t kUnitPixels = 8;
struct UnitPiece {
  int64_t x = 0, x_step = 0;
  int64_t y = 0, y_step = 0;
  int64_t count = 0;
  /// The piece is repeated this many times, each time advanced by these offsets.
  int64_t repeats = 1, x_repeat = 0, y_repeat = 0;
  UnitTaps rows, columns;
  /// The distance of neighbouring pixels in taps (1 or 2), if all taps of a row are inside and the filter has 3, 5 or 7
  /// columns. Inputs that these pixels share then stay in registers.
  int stride = 0;  // 0: not applicable
};

/// Some pieces of one image, for channels [first_channel, last_channel). first_channel is a multiple of a vector; last_channel
/// is one, too, or the number of channels. weights: tap after tap, `weights_row` apart, each with whole vectors of channels.
struct UnitDepthwise {
  const float* x = nullptr;
  float* y = nullptr;
  const float* weights = nullptr;
  int64_t weights_row = 0;
  int64_t tap_row = 0, tap_column = 0;  // elements of x from one tap to the next
  int64_t filter_columns = 0;
  const UnitPiece* pieces = nullptr;
  int64_t piece_count = 0;
  int64_t first_channel = 0, last_channel = 0;
  UnitTail tail;
};

struct UnitKernels {
  int64_t lanes;  // of a vector
  void (*product)(const UnitProduct& product);
  void (*depthwise)(const UnitDepthwise& depthwise);
  /// y = silu(sums) + residual for `rows` rows of sums, each padded to whole vectors. y may be the sums.
  void (*silu)(const float* sums, int64_t rows, int64_t columns, float* y, int64_t y_row,
               const float* residual);
};

/// The kernels for the best instruction set of this machine.
const UnitKernels& unit_kernels();

// UnitProduct on bf16 images: dot products of pairs (AVX512_BF16), twice as many multiplications per instruction as in f32.
// Sums, bias and activation are f32. Pure functions; any thread. Internal to engine/cpu.

/// Like UnitProduct, but `terms` is even, and two terms of a column are adjacent in b.
struct UnitProductBf16 {
  const BFloat16* a = nullptr;
  int64_t a_row = 0, terms = 0;
  const BFloat16* b = nullptr;
  float* wide = nullptr;  // the result, as f32,
  BFloat16* y = nullptr;  // or as bf16
  int64_t y_row = 0, rows = 0;
  int64_t first_vector = 0, last_vector = 0, columns = 0;
  UnitTail tail;                       // without a residual
  const BFloat16* residual = nullptr;  // has y's layout, or is null
};

/// Whether this machine has these kernels, within kernel_isa().
bool has_unit_bf16();
void unit_product_bf16(const UnitProductBf16& product);

/// Rows of `columns` elements. Rows begin `from_row` elements apart in the source and `to_row` apart in the target.
struct UnitRows {
  int64_t rows = 0, columns = 0, from_row = 0, to_row = 0;
};
void widen_rows(const UnitRows& rows, const BFloat16* from, float* to);
/// Adds `residual`, which has the layout of `to`, if it isn't null.
void narrow_rows(const UnitRows& rows, const float* from, const BFloat16* residual, BFloat16* to);

}  // namespace dlpipe::engine::cpu
