// The inner loops of conv_unit on plain f32 images, in Highway, chosen at run time for the CPU: products of pixels and
// weights (1x1 convolutions, others by rows of windows) and depthwise convolutions, whose sums get bias, activation and
// residual before they leave the registers. conv_unit.cpp cuts the work.
//
// Every sum is one chain of fused multiply-adds in the order of the terms, however the work is cut. Pure functions; any
// thread. Internal to engine/cpu.
#pragma once

#include <array>
#include <cstdint>

namespace dlpipe::engine::cpu {

/// What happens to a sum: clipped (infinite bounds: as it is), or silu; then the residual is added.
struct UnitTail {
  const float* bias = nullptr;  // whole vectors of it
  float low = 0, high = 0;
  bool silu = false;
  const float* residual = nullptr;  // null, or laid out as y
};

/// Columns of a product come in panels of one to three vectors: how wide the next one is where `left` vectors are left.
/// Four are two and two: a panel of one has a load for each multiply-add.
constexpr int64_t unit_panel(int64_t left) {
  return left == 4 ? 2 : left < 3 ? left : 3;
}

/// y[r, j] = tail(sum over k of a[r, k] b[k, j]). b: panel after panel, the one that begins at vector v at
/// b + v * lanes * terms, term after term, its columns side by side; zeros behind the last column.
struct UnitProduct {
  const float* a = nullptr;
  int64_t a_row = 0, terms = 0;
  const float* b = nullptr;
  float* y = nullptr;
  int64_t y_row = 0, rows = 0;
  int64_t first_vector = 0, last_vector = 0;  // of columns: where panels begin and end
  int64_t columns = 0;                        // of all vectors
  UnitTail tail;                              // residual and y: their first row and column
};

/// Taps [from, to) of a side of a filter: those inside the image.
struct UnitTaps {
  int64_t from = 0, to = 0;
};

/// Up to kUnitPixels output pixels of a depthwise convolution that have the same taps, in a row or a column. Offsets and
/// steps in elements; x is where the first pixel's first tap lies, or would.
inline constexpr int64_t kUnitPixels = 8;
struct UnitPiece {
  int64_t x = 0, x_step = 0;
  int64_t y = 0, y_step = 0;
  int64_t count = 0;
  /// So many times, each time so much further.
  int64_t repeats = 1, x_repeat = 0, y_repeat = 0;
  UnitTaps rows, columns;
  /// What a pixel shares with the next one stays in registers where all taps of a row are there and pixels lie one or two
  /// taps apart, in filters of 3, 5 or 7 columns: how many taps.
  int stride = 0;  // 0: not so
};

/// Some pieces of one image, channels [first_channel, last_channel): from a whole vector to one, or to the last. weights:
/// tap after tap, `weights_row` apart, whole vectors of channels.
struct UnitDepthwise {
  const float* x = nullptr;
  float* y = nullptr;
  const float* weights = nullptr;
  int64_t weights_row = 0;
  int64_t tap_row = 0, tap_column = 0;  // elements of x from tap to tap
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
  /// silu of `rows` rows of sums, each whole vectors of its columns, and the residual, to y; y may be the sums.
  void (*silu)(const float* sums, int64_t rows, int64_t columns, float* y, int64_t y_row,
               const float* residual);
};

/// For the best instruction set of this machine.
const UnitKernels& unit_kernels();

}  // namespace dlpipe::engine::cpu
