// The inner loops of conv2d_product.h, in Highway, chosen at run time for the CPU. Pure functions; any thread. Internal to
// engine/cpu.
#pragma once

#include <cstdint>

namespace dlpipe::engine::cpu {

/// Vectors of output channels of a panel; the last panel has one where their number is odd.
inline constexpr int64_t kPixelProductPanel = 2;

/// y = bias + x weights, then relu where wanted, of some pixels in a row: images are blocks of `lanes` channels, a block's
/// pixels side by side, blocks `plane` elements apart.
struct PixelProduct {
  const float* x = nullptr;
  int64_t x_plane = 0, in_blocks = 0;
  /// Panel after panel, the one that begins at block v at weights + v * lanes * in_blocks * lanes; in a panel, input channel
  /// after input channel, its output channels side by side.
  const float* weights = nullptr;
  const float* bias = nullptr;  // null: zeros
  float* y = nullptr;
  int64_t y_plane = 0;
  int64_t first_block = 0, last_block = 0;  // of y, weights and bias: where panels begin and end
  int64_t pixels = 0;
  bool relu = false;  // of NaN it is NaN
};

struct PixelProductKernels {
  int64_t lanes;  // of a vector
  void (*run)(const PixelProduct& product);
};

/// For the best instruction set of this machine.
const PixelProductKernels& pixel_product();

}  // namespace dlpipe::engine::cpu
