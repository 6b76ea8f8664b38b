// Shared by conv_unit and conv_pair, around the loops of unit_kernels.h: weights and biases in the loops' format, converted
// once if they are constants, and a depthwise convolution cut into pieces. Internal to engine/cpu.
#pragma once

#include <functional>
#include <vector>

#include "dlpipe/tensor.h"
#include "engine/cpu/conv/unit_kernels.h"
#include "engine/ops/conv_unit.h"
#include "engine/ops/window.h"

namespace dlpipe::engine::cpu {

/// Whether this machine's kernels (unit_kernels.h) support images of `dtype`.
bool has_units(DType dtype);

/// The number of vectors that hold `channels`, and the number of channels in those vectors.
int64_t vectors_of(int64_t channels);
int64_t padded(int64_t channels);
/// The first vector of each panel, followed by the number of vectors.
std::vector<int64_t> panels_of(int64_t channels);

/// OIHW weights, f32 or bf16, as a product's panels of the same dtype. Terms are in the order of a window's memory: rows,
/// columns, channels. In bf16 their number is even: an odd number is padded with a term of zeros.
Tensor panels_of_weights(const Tensor& weight);
/// Depthwise weights, f32 or bf16, converted to f32 and ordered tap after tap.
Tensor taps_of_weights(const Tensor& weight);
/// The bias in whole vectors, f32; zeros if it is undefined.
Tensor vectors_of_bias(const Tensor& bias, int64_t channels);
UnitTail tail_of(ConvTail tail, double low, double high, const Tensor& bias);

/// Where a depthwise convolution's input is in memory: pixels are `pixel` elements apart, a row has w pixels, and the first
/// row in memory is row `first_row` of the image.
struct UnitImage {
  int64_t pixel = 0, first_row = 0;
};

/// Some output rows of a depthwise convolution as pieces. A group is a range of columns in all of these rows.
/// Its input is read from memory once, channel by channel and row by row, in as many streams as there are rows.
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
  /// The part of `range` whose windows are inside the image along `axis`.
  Range whole(size_t axis, int64_t count, int64_t size, Range range) const;
  /// Adds columns at the left or right border, each of which has the same taps across in every row.
  void add_border(Range columns, Range rows, Range all);
  void add(int64_t oy, int64_t ox, int64_t count, Direction direction, UnitTaps rows, UnitTaps columns);

  const Conv2dShape& s_;
  UnitImage x_;
  int shared_stride_ = 0;  // UnitPiece::stride of pieces along a row
  std::vector<std::vector<UnitPiece>> groups_;
};

// A depthwise convolution by bands of rows and panels of channels. The input of a band is computed just before it is read, by the
// preceding 1x1 convolution or from a narrower dtype, so it is still in the core's second-level cache. Internal to engine/cpu.

/// Input rows [first, last) of image n and vectors [begin, end) of channels, to be written to x: [rows, w, width].
struct UnitBand {
  int64_t n = 0, first = 0, last = 0;
  int64_t begin = 0, end = 0;
  int64_t width = 0;  // channels in the vectors
  float* x = nullptr;
};

/// Computes y, f32 or bf16 [n, oh, ow, c]. `taps` is from taps_of_weights. Several threads call `fill` at once. The
/// residual has y's dtype and shape, or is undefined.
void run_in_bands(const Conv2dShape& s, const Tensor& taps, const UnitTail& tail, const Tensor& residual,
                  const Tensor& y, const std::function<void(const UnitBand&)>& fill);

}  // namespace dlpipe::engine::cpu
