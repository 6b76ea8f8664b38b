// conv2d by Winograd's F(4x4, 3x3) with our own kernels: 3x3, stride 1, channels in eights, on any layout and
// both dtypes. Four times fewer multiplications than the direct convolution; what that gives and costs in
// accuracy is in ARCHITECTURE.md. Internal to engine/cpu.
//
// Slices cut the images; where there are few of them, their tiles, then the output channels. What a slice computes doesn't
// depend on how they are cut, except for the gradient of the weights, whose partial sums are added in slice
// order. All functions work on the training pool and return when done.
#pragma once

#include "dlpipe/engine/core/tensor.h"
#include "dlpipe/engine/cpu/conv/conv2d_choice.h"
#include "dlpipe/engine/ops/window.h"

namespace dlpipe::engine::cpu {

/// Whether these functions can do it.
bool winograd_fits(const Conv2dShape& shape);

/// Tiles of 4x4 pixels of what a pass computes (backward weights: of the output).
int64_t winograd_tiles_an_image(ConvPass pass, const Conv2dShape& shape);

/// y of x; weight is f32 OIHW; bias (f32) may be undefined; kNone or kRelu.
void winograd_forward(const Conv2dShape& shape, const KernelChoice& choice, const Tensor& x,
                      const Tensor& weight, const Tensor& bias, const Tensor& y, Activation activation);
/// dx of dy.
void winograd_backward_data(const Conv2dShape& shape, const KernelChoice& choice, const Tensor& dy,
                            const Tensor& weight, const Tensor& dx);
/// dweight (f32, OIHW) and, where not null, dbias [O] of x and dy.
void winograd_backward_weights(const Conv2dShape& shape, const KernelChoice& choice, const Tensor& x,
                               const Tensor& dy, float* dweight, float* dbias);

}  // namespace dlpipe::engine::cpu
