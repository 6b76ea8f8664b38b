// conv2d forward as dlpipe's own product of pixels and weights, on f32 images in channel blocks as wide as a vector. 1x1
// convolutions with stride 1 read the image directly, others read a copy of the windows. Bias and relu are applied while
// the sums are in registers. Meant for few images; the measurements are in conv2d_choice.cpp. Internal to engine/cpu.
//
// Every sum is one chain of fused multiply-adds that starts with the bias, in the order of taps and channels. So the bits
// are the same for any cut of the work and any number of threads, with AVX2 and with AVX-512.
#pragma once

#include <cstdint>

#include "dlpipe/tensor.h"
#include "engine/cpu/conv/conv2d_choice.h"
#include "engine/ops/window.h"

namespace dlpipe::engine::cpu {

/// The block of channels that images must have on this machine; 0 if there is no kernel.
int64_t product_block();

/// Whether product_forward supports the shape, for images in such blocks.
bool product_fits(const Conv2dShape& shape);

/// Computes y from x. weight is OIHW; bias may be undefined. Works on the training pool and returns when done.
void product_forward(const Conv2dShape& shape, const KernelChoice& choice, const Tensor& x,
                     const Tensor& weight, const Tensor& bias, const Tensor& y, Activation activation);

// The inner loops, in Highway, chosen at run time for the CPU. Pure functions; any thread.

/// Vectors of output channels per panel. The last panel has one if the number of vectors is odd.
inline constexpr int64_t kPixelProductPanel = 2;

/// y = bias + x weights, then relu if set, for some pixels of a row. Images are in blocks of `lanes` channels: the pixels
/// of a block are contiguous, and blocks are `plane` elements apart.
struct PixelProduct {
  const float* x = nullptr;
  int64_t x_plane = 0, in_blocks = 0;
  /// Panels in order; the panel of block v begins at weights + v * lanes * in_blocks * lanes. A panel has one row per input
  /// channel, with the weights of its output channels side by side.
  const float* weights = nullptr;
  const float* bias = nullptr;  // null: zeros
  float* y = nullptr;
  int64_t y_plane = 0;
  int64_t first_block = 0, last_block = 0;  // of y, weights and bias; panels begin and end here
  int64_t pixels = 0;
  bool relu = false;  // NaN stays NaN
};

struct PixelProductKernels {
  int64_t lanes;  // of a vector
  void (*run)(const PixelProduct& product);
};

/// The kernels for the best instruction set of this machine.
const PixelProductKernels& pixel_product();

}  // namespace dlpipe::engine::cpu
