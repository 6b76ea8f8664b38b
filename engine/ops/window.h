// Sliding windows over images: the sizes that convolution and pooling share.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "dlpipe/error.h"
#include "dlpipe/ops.h"
#include "dlpipe/tensor.h"

namespace dlpipe::engine {

/// The number of windows along one axis: 0 or less if the kernel doesn't fit. With `ceil` a last window that extends
/// past the right side counts if it begins inside the image or its left padding (PyTorch's rule).
int64_t window_count(int64_t size, int kernel, int stride, int padding, int dilation, bool ceil);

/// An optional input, which may also be omitted at the end of the list.
inline bool has_input(std::span<const Tensor> inputs, size_t i) {
  return i < inputs.size() && inputs[i].defined();
}
inline bool has_input(std::span<const bool> defined, size_t i) {
  return i < defined.size() && defined[i];
}

/// A convolution with all its sizes; [N,H,W,C] x [O,C/G,KH,KW] -> [N,OH,OW,O].
struct Conv2dShape {
  int64_t n = 0, h = 0, w = 0, c = 0;
  int64_t o = 0, oh = 0, ow = 0;
  int64_t kh = 0, kw = 0;
  int64_t groups = 1;
  std::array<int, 2> stride{}, padding{}, dilation{};

  int64_t c_group() const { return c / groups; }
  int64_t o_group() const { return o / groups; }
  int64_t weights() const { return o * c_group() * kh * kw; }
  /// Multiplications and additions of one pass.
  double flops() const { return 2.0 * static_cast<double>(n * oh * ow) * static_cast<double>(weights()); }
};
/// The sizes for inputs that passed conv2d's shape rule.
Conv2dShape conv2d_shape(const Shape& x, const Shape& weight, const Conv2dAttrs& attrs);

/// A pooling with all its sizes; [N,H,W,C] -> [N,OH,OW,C].
struct Pool2dShape {
  int64_t n = 0, h = 0, w = 0, c = 0;
  int64_t oh = 0, ow = 0;
  std::array<int, 2> kernel{}, stride{}, padding{};

  /// The part of window `o` inside the image: rows (axis 0) or columns (axis 1) [begin, end).
  struct Range {
    int64_t begin, end;
  };
  Range range(int axis, int64_t o) const {
    const int64_t begin = o * stride[axis] - padding[axis];
    const int64_t size = axis == 0 ? h : w;
    return {begin < 0 ? 0 : begin, begin + kernel[axis] < size ? begin + kernel[axis] : size};
  }
  /// The rows or columns of window `o` that count in an average: padding counts, positions past it don't.
  int64_t padded_length(int axis, int64_t o) const {
    const int64_t begin = o * stride[axis] - padding[axis];
    const int64_t size = (axis == 0 ? h : w) + padding[axis];
    return (begin + kernel[axis] < size ? begin + kernel[axis] : size) - begin;
  }
};
/// Checks the input and the attributes; throws "[op] ...".
Pool2dShape pool2d_shape(const char* op, const TensorSpec& x, const Pool2dAttrs& attrs);

}  // namespace dlpipe::engine
