// Views without history, for the ops that only look at memory otherwise.
#pragma once

#include <vector>

#include "dlpipe/engine/core/tensor.h"

namespace dlpipe::engine {

/// The elements of a contiguous plain `x` under another shape; undefined when x is not contiguous.
Tensor reshaped_view(const Tensor& x, const Shape& shape);
/// Axis i of the result is axis permutation[i] of `x`.
Tensor permuted_view(const Tensor& x, const std::vector<int>& permutation);
std::vector<int> inverse_permutation(const std::vector<int>& permutation);
/// Strides of row-major order.
std::vector<int64_t> row_major(const Shape& shape);

}  // namespace dlpipe::engine
