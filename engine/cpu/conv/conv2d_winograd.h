// conv2d by Winograd's F(4x4, 3x3) with dlpipe's own kernels: 3x3, stride 1, any dilation, channels in multiples of eight,
// any layout and both dtypes. It needs a quarter of the direct convolution's multiplications;
// docs/decisions/005-own-winograd.md has the effect on speed and accuracy. Internal to engine/cpu.
//
// Slices cut the batch; if it has few images, they also cut the tiles, then the output channels. The results don't depend
// on the cut, except for the gradient of the weights, which adds its partial sums in slice order. All functions work on the
// training pool and return when done.
#pragma once

#include <cstdint>

#include "dlpipe/ops.h"
#include "dlpipe/tensor.h"
#include "engine/cpu/conv/conv2d_choice.h"
#include "engine/ops/window.h"

namespace dlpipe::engine::cpu {

/// Whether these functions support the shape.
bool winograd_fits(const Conv2dShape& shape);

/// The number of tiles of 4x4 pixels per image of a pass's result (backward weights: of the output).
int64_t winograd_tiles_an_image(ConvPass pass, const Conv2dShape& shape);

/// Computes y from x. weight is f32 OIHW; bias (f32) may be undefined; activation is kNone or kRelu.
void winograd_forward(const Conv2dShape& shape, const KernelChoice& choice, const Tensor& x,
                      const Tensor& weight, const Tensor& bias, const Tensor& y, Activation activation);
/// Computes dx from dy.
void winograd_backward_data(const Conv2dShape& shape, const KernelChoice& choice, const Tensor& dy,
                            const Tensor& weight, const Tensor& dx);
/// Computes dweight (f32, OIHW) and, if it isn't null, dbias [O] from x and dy.
void winograd_backward_weights(const Conv2dShape& shape, const KernelChoice& choice, const Tensor& x,
                               const Tensor& dy, float* dweight, float* dbias);

// The transforms of Winograd's convolution F(4x4, 3x3), for images, weights and gradients, in Highway, chosen
// at run time for the CPU. conv2d_winograd.cpp computes the 36 products between them.
//
// A tile is 4x4 pixels of the output and the 6x6 pixels of the input that they need. After the transforms, a
// convolution is 36 products of matrices, one per frequency: 2.25 multiplications per output pixel and pair of
// channels, where the plain loop has 9. The points are 0, +-1/sqrt(2), +-sqrt(2) and infinity. Their transforms
// round about half as much as those of 0, +-1, +-2, which most libraries use. The formulas follow from
// Y = A^T [(G g G^T) * (B^T d B)] A (Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks").
// The gradient of the weights is that expression's adjoint: G^T [sum over tiles of V * (A dY A^T)] G.
//
// The order of sums doesn't depend on the width of vectors and blocks, so all instruction sets with fused
// multiply-add compute the same bits. Pure functions; any thread. Internal to engine/cpu.

inline constexpr int64_t kWinogradTile = 4;          // output pixels along a tile's side
inline constexpr int64_t kWinogradFrequencies = 36;  // matrix products per convolution
inline constexpr int64_t kWinogradChannels = 8;      // channels come in multiples of this
inline constexpr int64_t kWinogradMostTiles = 192;   // the most tiles of a WinogradRange

/// A tensor of images as the transforms address it: pixel (n, y, x), channel c is element
/// n * image + (c / block) * plane + (y * width + x) * pixel + c % block. Blocks are multiples of 8.
struct WinogradImages {
  void* data = nullptr;
  bool low = false;  // bf16, else f32
  int64_t height = 0, width = 0;
  int64_t image = 0, plane = 0, pixel = 0, block = 0;  // elements
};

/// The tiles of each image, numbered row by row, image after image. A tile's pixels begin at 4 * its place - pad. pad is
/// the convolution's padding for its input and 0 for its output.
///
/// A dilated convolution is an ordinary convolution of down x across smaller images: each has every down-th row and every
/// across-th column. The pixels of a tile are then that far apart, and each smaller image has rows x columns tiles. Tiles
/// at the same place of different smaller images share cache lines, so numbers of tiles count, from fastest to slowest, the
/// smaller images across, the columns, the smaller images down, and the rows.
struct WinogradTiles {
  int64_t rows = 0, columns = 0;
  int64_t pad_top = 0, pad_left = 0;
  int64_t down = 1, across = 1;  // the dilation

  int64_t an_image() const { return rows * columns * down * across; }
};

/// A range of tiles and channels, and the layout of its transform: element (frequency, tile, channel) is at
/// data + frequency * plane + tile * row + channel. Tile and channel are counted from the first of the range.
struct WinogradRange {
  int64_t first_tile = 0, tiles = 0;
  int64_t first_channel = 0, channels = 0;
  float* data = nullptr;
  int64_t row = 0, plane = 0;
};

/// How OIHW weights are read: element (out, in, tap) is at data + out * out_step + in * in_step + tap.
struct WinogradWeights {
  const float* data = nullptr;
  int64_t outs = 0, ins = 0;
  int64_t out_step = 0, in_step = 0;
  bool flipped = false;  // taps from last to first, for the gradient of the images
};

struct WinogradKernels {
  /// B^T d B of the range's tiles. Pixels outside the image are zeros.
  void (*input)(const WinogradImages& x, const WinogradTiles& tiles, const WinogradRange& to);
  /// A dy A^T of the range's tiles (4x4 each). If `sums` isn't null, also sums[channel] += dy.
  void (*gradient)(const WinogradImages& dy, const WinogradTiles& tiles, const WinogradRange& to,
                   float* sums);
  /// A^T m A of the range's tiles, written to the pixels inside the image, plus bias[channel] if given, then relu (kNone, kRelu).
  void (*output)(const WinogradRange& from, const WinogradImages& y, const WinogradTiles& tiles,
                 const float* bias, Activation activation);
  /// G g G^T of `panel` outs from `first` on, with zeros after the last: element (frequency, in, out) is at
  /// to + frequency * plane + in * panel + out. Panels are multiples of a vector, at most 64.
  void (*weights)(const WinogradWeights& weights, int64_t first, int64_t panel, float* to, int64_t plane);
  /// G^T d G of one row of `outs` (a multiple of 8): tap k of out is at to + k * to_tap + out.
  void (*weights_gradient)(const float* d, int64_t d_plane, int64_t outs, float* to, int64_t to_tap);
};

/// The kernels for the best instruction set of this machine. Below AVX2, without fused multiply-add, they work but are not
/// worth using.
const WinogradKernels& winograd_kernels();

}  // namespace dlpipe::engine::cpu
