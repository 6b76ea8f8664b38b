// Ops that only move elements: their attributes, views without history, and a shape split at an axis. Shared by their records
// and the kernels of every backend.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "dlpipe/dtype.h"
#include "dlpipe/op.h"
#include "dlpipe/tensor.h"

namespace dlpipe::engine {

/// The elements of a contiguous plain `x` under another shape; undefined if x is not contiguous.
Tensor reshaped_view(const Tensor& x, const Shape& shape);
/// Axis i of the result is axis permutation[i] of `x`.
Tensor permuted_view(const Tensor& x, const std::vector<int>& permutation);
std::vector<int> inverse_permutation(const std::vector<int>& permutation);
/// Strides of row-major order.
std::vector<int64_t> row_major(const Shape& shape);

/// A shape as [outer, count, inner] around an axis.
struct AxisSplit {
  int64_t outer = 1;
  int64_t count = 1;
  int64_t inner = 1;

  AxisSplit(const Shape& shape, int axis) : count(shape[axis]) {
    for (int i = 0; i < axis; ++i) outer *= shape[i];
    for (int i = axis + 1; i < shape.rank(); ++i) inner *= shape[i];
  }
};

/// OpRecord::by_sample for an op that works along the attribute `axis`.
template <class A>
bool is_off_axis_0(const Attrs& attrs) {
  return attrs.as<A>().axis != 0;
}

struct ConcatAttrs {
  int axis = 0;  // from the front

  static void each(auto& self, auto&& visit) {  // core/attr_form.h
    visit("axis", self.axis);
  }
};

struct ExpandAttrs {
  Shape shape;

  static void each(auto& self, auto&& visit) {  // core/attr_form.h
    visit("shape", self.shape);
  }
};

/// A view of `x` with `shape`, which it broadcasts to (NumPy's rule): broadcast axes have stride 0. Without history.
Tensor expanded_view(const Tensor& x, const Shape& shape);
/// The gradient of a tensor of shape `shape` that was expanded: each element's gradient is the sum over its copies.
Tensor expanded_gradient(const Tensor& grad, const Shape& shape);

/// Pixels and channels of an image [N,H,W,C]; for other shapes, all elements of a sample and one channel.
inline std::pair<int64_t, int64_t> pixels_and_channels(const Shape& shape) {
  if (shape.rank() == 4) return {shape[1] * shape[2], shape[3]};
  return {shape[0] == 0 ? 0 : shape.elements() / shape[0], 1};
}

struct ReshapeAttrs {
  Shape shape;  // no -1

  static void each(auto& self, auto&& visit) {  // core/attr_form.h
    visit("shape", self.shape);
  }
};

struct SliceAttrs {
  int axis = 0;  // from the front
  int64_t begin = 0;
  int64_t end = 0;  // 0 <= begin <= end <= size
  int64_t step = 1;

  int64_t count() const { return begin == end ? 0 : (end - begin - 1) / step + 1; }

  static void each(auto& self, auto&& visit) {  // core/attr_form.h
    visit("axis", self.axis);
    visit("begin", self.begin);
    visit("end", self.end);
    visit("step", self.step);
  }
};

/// The part of `x`, without history.
Tensor sliced_view(const Tensor& x, const SliceAttrs& attrs);

struct TransposeAttrs {
  std::vector<int> permutation;  // axis i of the output is axis permutation[i] of the input; from the front

  static void each(auto& self, auto&& visit) {  // core/attr_form.h
    visit("permutation", self.permutation);
  }
};

}  // namespace dlpipe::engine
