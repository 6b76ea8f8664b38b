// conv2d as one product of matrices for each tap of the kernel, over the pixels where that tap is inside the image: stride 1,
// one group, any kernel, dilation and channels, any layout and both dtypes. It is for dilations and kernels so large that many taps
// read only padding, with which other kernels multiply, and for gradients of kernels that oneDNN has only reference loops for.
// Internal to engine/cpu.
//
// Every element is one chain of fused multiply-adds, tap after tap and channel after channel (gradients of weights: chains over
// some hundred pixels, added in order), for any cut of the work: the same bits on any number of threads and on all instruction
// sets that have them. All functions work on the training pool and return when done.
#pragma once

#include "dlpipe/ops.h"
#include "dlpipe/tensor.h"
#include "engine/cpu/conv/conv2d_choice.h"
#include "engine/ops/window.h"

namespace dlpipe::engine::cpu {

/// Whether these functions support the shape.
bool taps_fit(const Conv2dShape& shape);

/// How many taps of the kernel are inside the image, on average over the outputs: kh * kw without padding.
double taps_inside(const Conv2dShape& shape);

/// y of x; weight is f32 OIHW; bias (f32) may be undefined.
void taps_forward(const Conv2dShape& shape, const KernelChoice& choice, const Tensor& x, const Tensor& weight,
                  const Tensor& bias, const Tensor& y, Activation activation);
/// dx of dy.
void taps_backward_data(const Conv2dShape& shape, const KernelChoice& choice, const Tensor& dy,
                        const Tensor& weight, const Tensor& dx);
/// dweight (f32, OIHW) and, where not null, dbias [O] of x and dy.
void taps_backward_weights(const Conv2dShape& shape, const Tensor& x, const Tensor& dy, float* dweight,
                           float* dbias);

}  // namespace dlpipe::engine::cpu
