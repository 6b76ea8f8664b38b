// conv2d forward as our own product of pixels and weights, on f32 images in blocks of channels as wide as a vector. 1x1
// convolutions of stride 1 read the image as it lies, others a copy of the windows. Bias and relu are applied while the sums
// are in registers. For few images: conv2d_choice.cpp says what it gives where. Internal to engine/cpu.
//
// Every sum is one chain of fused multiply-adds, from the bias on, tap after tap and channel after channel: the same bits
// however the work is cut, on any number of threads, with AVX2 and with AVX-512.
#pragma once

#include "dlpipe/engine/core/tensor.h"
#include "dlpipe/engine/cpu/conv/conv2d_choice.h"
#include "dlpipe/engine/ops/window.h"

namespace dlpipe::engine::cpu {

/// Channels of the blocks that images must have on this machine; 0: there is no kernel for any.
int64_t product_block();

/// Whether product_forward can do it, on images in such blocks.
bool product_fits(const Conv2dShape& shape);

/// y of x; weight is OIHW; bias may be undefined. Works on the training pool and returns when done.
void product_forward(const Conv2dShape& shape, const KernelChoice& choice, const Tensor& x,
                     const Tensor& weight, const Tensor& bias, const Tensor& y, Activation activation);

}  // namespace dlpipe::engine::cpu
