// What the engine's core needs of ops/, which defines it: the two conversions that `apply` puts before a kernel
// (ops/cast.cpp, ops/reorder.cpp), and the sum. They are ops like others: they run through `apply` themselves, on
// inputs that need no conversion.
#pragma once

#include "dlpipe/engine/core/tensor.h"

namespace dlpipe::engine {

/// Another dtype; the gradient comes back in the input's.
Tensor cast(const Tensor& x, DType dtype);
/// Another layout (differentiable).
Tensor reorder(const Tensor& x, Layout layout);
/// The sum: what the gradient of a leaf with several readers comes to (ops/add.cpp).
Tensor add(const Tensor& a, const Tensor& b);

}  // namespace dlpipe::engine
