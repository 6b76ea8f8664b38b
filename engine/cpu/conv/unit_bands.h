// A depthwise convolution a band of rows and a panel of channels at a time, whose input is made just before it is read: by
// the 1x1 convolution in front of it, or from a narrower dtype. Both lie in a core's second-level cache meanwhile.
// Internal to engine/cpu.
#pragma once

#include <functional>
#include <vector>

#include "dlpipe/engine/core/tensor.h"
#include "dlpipe/engine/cpu/conv/unit_kernels.h"
#include "dlpipe/engine/ops/window.h"

namespace dlpipe::engine::cpu {

/// Input rows [first, last) of image n, vectors [begin, end) of channels, to be written at x: [rows, w, width].
struct UnitBand {
  int64_t n = 0, first = 0, last = 0;
  int64_t begin = 0, end = 0;
  int64_t width = 0;  // of the vectors, in channels
  float* x = nullptr;
};

/// y f32 or bf16 [n, oh, ow, c]; `taps`: taps_of_weights; `fill` is called by several threads at once. The residual, of y's
/// dtype and shape, may be undefined.
void run_in_bands(const Conv2dShape& s, const Tensor& taps, const UnitTail& tail, const Tensor& residual,
                  const Tensor& y, const std::function<void(const UnitBand&)>& fill);

}  // namespace dlpipe::engine::cpu
