// The gradient of a depthwise convolution's weights: one channel per group, any kernel, stride and dilation, any layout and
// both dtypes. oneDNN 2 and 3 have a fast kernel for 3x3 only; for 5x5 and 7x7 they compute a full convolution of padded
// groups. Internal to engine/cpu.
//
// Copies planes of one vector of channels, with the padding's zeros, to scratch, and then keeps the sums of one row of the
// kernel's taps in registers. The result doesn't depend on the number of threads or the width of vectors. Works on the
// training pool and returns when done.
#pragma once

#include <cstdint>

#include "dlpipe/tensor.h"
#include "engine/ops/window.h"

namespace dlpipe::engine::cpu {

/// Whether depthwise_backward_weights supports the shape.
bool depthwise_fits(const Conv2dShape& shape);

/// Computes dweight (f32, [C, 1, KH, KW]) and, if it isn't null, dbias [C] from x and dy.
void depthwise_backward_weights(const Conv2dShape& shape, const Tensor& x, const Tensor& dy, float* dweight,
                                float* dbias);

// The inner loops, in Highway, chosen at run time for the CPU. Pure functions; any thread.

/// sums[ky][kx] += dy times the elements of x that the tap reads, for planes of one vector of channels. Steps are in floats.
struct DepthwiseSums {
  const float* x = nullptr;         // what the first tap of the first output reads
  int64_t x_row = 0, x_column = 0;  // steps from output to output
  int64_t tap_row = 0, tap_column = 0;
  const float* dy = nullptr;
  int64_t rows = 0, columns = 0;  // of dy
  int64_t kh = 0, kw = 0;
  float* sums = nullptr;  // [kh][kw][lanes]
};

struct DepthwiseKernels {
  int64_t lanes;  // of a vector
  void (*add)(const DepthwiseSums& sums);
};

/// The kernels for the best instruction set of this machine.
const DepthwiseKernels& depthwise_kernels();

}  // namespace dlpipe::engine::cpu
