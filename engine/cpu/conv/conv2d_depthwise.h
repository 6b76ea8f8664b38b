// The gradient of a depthwise convolution's weights: one channel per group, any kernel, stride and dilation, any layout and both
// dtypes. oneDNN 2 and 3 have a fast kernel for 3x3 alone; for 5x5 and 7x7 they compute a full convolution of padded groups.
// Internal to engine/cpu.
//
// Planes of one vector of channels, with the padding's zeros, are copied to scratch; then a row of the kernel's taps has its sums
// in registers. The result doesn't depend on the number of threads and on the width of vectors. Works on the training pool and
// returns when done.
#pragma once

#include "dlpipe/tensor.h"
#include "engine/ops/window.h"

namespace dlpipe::engine::cpu {

/// Whether depthwise_backward_weights supports the shape.
bool depthwise_fits(const Conv2dShape& shape);

/// dweight (f32, [C, 1, KH, KW]) and, where not null, dbias [C] of x and dy.
void depthwise_backward_weights(const Conv2dShape& shape, const Tensor& x, const Tensor& dy, float* dweight,
                                float* dbias);

}  // namespace dlpipe::engine::cpu
