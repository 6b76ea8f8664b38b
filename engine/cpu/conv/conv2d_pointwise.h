// 1x1 convolutions of stride 1 as our own products of pixels and weights, on f32 images in blocks of channels as wide as a
// vector. Bias and relu are applied while the sums are in registers. Internal to engine/cpu.
//
// Every sum is one chain of fused multiply-adds, from the bias on, in the order of the channels: the same bits however the
// work is cut, on any number of threads, with AVX2 and with AVX-512. All functions work on the training pool and return
// when done.
#pragma once

#include "dlpipe/engine/core/tensor.h"
#include "dlpipe/engine/cpu/conv/conv2d_choice.h"
#include "dlpipe/engine/ops/window.h"

namespace dlpipe::engine::cpu {

/// Channels of a block that these functions take on this machine; 0: it has no kernel for them.
int64_t pointwise_block();

/// Whether these functions can do it, on images in such blocks.
bool pointwise_fits(const Conv2dShape& shape);

/// y of x; weight is OIHW; bias may be undefined.
void pointwise_forward(const Conv2dShape& shape, const KernelChoice& choice, const Tensor& x,
                       const Tensor& weight, const Tensor& bias, const Tensor& y, Activation activation);
/// dx of dy.
void pointwise_backward_data(const Conv2dShape& shape, const KernelChoice& choice, const Tensor& dy,
                             const Tensor& weight, const Tensor& dx);

}  // namespace dlpipe::engine::cpu
