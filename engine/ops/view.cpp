#include "dlpipe/engine/ops/view.h"

namespace dlpipe::engine {

std::vector<int64_t> row_major(const Shape& shape) {
  std::vector<int64_t> strides(static_cast<size_t>(shape.rank()));
  int64_t stride = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    strides[static_cast<size_t>(i)] = stride;
    stride *= shape[i];
  }
  return strides;
}

Tensor reshaped_view(const Tensor& x, const Shape& shape) {
  if (!x.is_contiguous()) return {};
  return x.view_as(shape, row_major(shape), 0);
}

Tensor permuted_view(const Tensor& x, const std::vector<int>& permutation) {
  Shape shape;
  std::vector<int64_t> strides;
  for (int axis : permutation) {
    shape.push_back(x.shape()[axis]);
    strides.push_back(x.strides()[static_cast<size_t>(axis)]);
  }
  return x.view_as(shape, strides, 0);
}

std::vector<int> inverse_permutation(const std::vector<int>& permutation) {
  std::vector<int> inverse(permutation.size());
  for (size_t i = 0; i < permutation.size(); ++i)
    inverse[static_cast<size_t>(permutation[i])] = static_cast<int>(i);
  return inverse;
}

}  // namespace dlpipe::engine
