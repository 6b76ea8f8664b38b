// What conv_unit and conv_pair share around the loops of unit_kernels.h: weights and biases as those take them, made once of
// constants, and a depthwise convolution cut into pieces. Internal to engine/cpu.
#pragma once

#include <vector>

#include "dlpipe/engine/core/tensor.h"
#include "dlpipe/engine/cpu/conv/unit_kernels.h"
#include "dlpipe/engine/ops/conv_unit.h"
#include "dlpipe/engine/ops/window.h"

namespace dlpipe::engine::cpu {

/// Whether this machine's kernels (unit_kernels.h, unit_bf16.h) take images of `dtype`.
bool has_units(DType dtype);

/// How many vectors hold the channels, and how many channels these are.
int64_t vectors_of(int64_t channels);
int64_t padded(int64_t channels);
/// Vectors where panels begin, and the end.
std::vector<int64_t> panels_of(int64_t channels);

/// OIHW weights, f32 or bf16, as a product's panels of the same dtype, the terms in the order of a window's memory: rows,
/// columns, channels. In bf16 an even number of terms, the last of an odd number zero.
Tensor panels_of_weights(const Tensor& weight);
/// Depthwise weights, f32 or bf16, tap after tap, f32.
Tensor taps_of_weights(const Tensor& weight);
/// Whole vectors of it, f32; zeros where it is undefined.
Tensor vectors_of_bias(const Tensor& bias, int64_t channels);
UnitTail tail_of(ConvTail tail, double low, double high, const Tensor& bias);

/// Where a depthwise convolution's input lies: its pixels `pixel` elements apart, its rows w pixels, the first row in memory
/// being row `first_row` of the image.
struct UnitImage {
  int64_t pixel = 0, first_row = 0;
};

/// Some output rows of a depthwise convolution as pieces. A group's rows lie beneath one another, so that channel after
/// channel, row after row its input comes from memory once, in as many streams as there are rows.
class DepthwisePieces {
 public:
  DepthwisePieces(const Conv2dShape& s, const UnitImage& x, int64_t first_row, int64_t last_row);

  const std::vector<std::vector<UnitPiece>>& groups() const { return groups_; }

 private:
  struct Range {
    int64_t from, to;
  };
  enum class Direction : uint8_t { kRight, kDown };

  UnitTaps taps(int64_t o, size_t axis, int64_t count, int64_t size) const;
  /// Those of `range` whose taps all lie inside the image.
  Range whole(size_t axis, int64_t count, int64_t size, Range range) const;
  /// Columns at the side, whose taps are the same from row to row.
  void add_border(Range columns, Range rows, Range all);
  void add(int64_t oy, int64_t ox, int64_t count, Direction direction, UnitTaps rows, UnitTaps columns);

  const Conv2dShape& s_;
  UnitImage x_;
  int shared_stride_ = 0;  // UnitPiece::stride of pieces to the right
  std::vector<std::vector<UnitPiece>> groups_;
};

}  // namespace dlpipe::engine::cpu
