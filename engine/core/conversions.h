// The two conversions that `apply` puts before a kernel and the engine's core needs of ops/, which defines
// them (ops/cast.cpp, ops/reorder.cpp). Both are ops like others: they run through `apply` themselves, on
// inputs that need no conversion.
#pragma once

#include "dlpipe/engine/core/tensor.h"

namespace dlpipe::engine {

/// Another dtype; the gradient comes back in the input's.
Tensor cast(const Tensor& x, DType dtype);
/// Another layout (differentiable).
Tensor reorder(const Tensor& x, Layout layout);

}  // namespace dlpipe::engine
