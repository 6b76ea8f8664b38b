// The built-in rules for convolutions: layout, kernel and slices as functions of shape, dtype and ISA. The
// measurements behind the rules are in comments next to them. Internal to engine/cpu.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "dlpipe/op.h"
#include "engine/core/kernel_table.h"
#include "engine/core/parallel.h"
#include "engine/ops/window.h"

namespace dlpipe::engine::cpu {

enum class ConvPass : uint8_t { kForward, kBackwardData, kBackwardWeights };

/// The layouts that a convolution should run in; only f32 images have blocked ones.
LayoutChoice conv_layouts(const Conv2dShape& shape, DType dtype);

/// "n32 56x56x64 o64 k3x3 s1x1 p1x1 d1x1 g1 f32 avx2": the part of a table key that all passes share.
std::string conv_key(const Conv2dShape& shape, DType dtype);

/// Kernel and slices for one pass of a convolution, from the table or else by the rule; in inference by the rule for one image
/// alone, and the table is not changed. `block` is the output's block of channels, 1 if it is plain.
KernelChoice conv_choice(ConvPass pass, const Conv2dShape& shape, DType dtype, int block);

/// If the table measures, finds the best kernel for this pass by timing run(), which computes the pass.
void measure_conv(ConvPass pass, const Conv2dShape& shape, DType dtype, const std::function<void()>& run);

/// What conv_choice chooses and why it is not something faster, for --explain.
std::string conv_explanation(ConvPass pass, const Conv2dShape& shape, DType dtype);

/// The result of conv_choice if it is dlpipe's Winograd (conv2d_winograd.h), else nullopt.
std::optional<KernelChoice> winograd_choice(ConvPass pass, const Conv2dShape& shape, DType dtype);
inline constexpr const char* kOwnWinograd = "winograd4x4";
/// The minimum number of tiles in a part, if several slices share an image's tiles.
inline constexpr int64_t kWinogradTilesAPart = 24;

/// The result of conv_choice if it is dlpipe's products of taps (conv2d_taps.h), else nullopt.
std::optional<KernelChoice> taps_choice(ConvPass pass, const Conv2dShape& shape, DType dtype);
inline constexpr const char* kOwnTaps = "taps";

/// Whether the gradient of the weights is computed by dlpipe's depthwise kernel (conv2d_depthwise.h).
bool chooses_depthwise(const Conv2dShape& shape, DType dtype);
inline constexpr const char* kOwnDepthwise = "depthwise";

/// The result of conv_choice for a forward pass if it is dlpipe's product of pixels and weights (conv2d_product.h) and that
/// supports images in `held`; else nullopt.
std::optional<KernelChoice> product_choice(const Conv2dShape& shape, DType dtype, LayoutChoice held);
inline constexpr const char* kOwnProduct = "product";

/// Whether a product of pixels and weights can read the image without copying its windows.
bool is_pointwise(const Conv2dShape& shape);

/// Whether bf16 convolutions use oneDNN's bf16 kernels on this ISA; otherwise they are computed in f32.
bool computes_bf16();

// How slices share the images of a convolution whose result doesn't depend on the cut. Internal to engine/cpu.

struct Range {
  int64_t begin, end;
  int64_t size() const { return end - begin; }
};

/// Part `index` of `parts` equal parts of [0, whole), in multiples of `unit`.
inline Range part_of(int64_t whole, int64_t unit, int64_t parts, int64_t index) {
  const int64_t units = divide_up(whole, unit);
  return {std::min(whole, units * index / parts * unit), std::min(whole, units * (index + 1) / parts * unit)};
}

/// Cuts a batch into groups of choice.images images and each group into up to choice.parts parts: first by positions
/// (tiles, pixels), at least `fewest` in each, then by panels of channels. Every part of the channels reads all positions,
/// so there are only as many of these parts as the threads need.
struct ImageCut {
  ImageCut(const KernelChoice& choice, int64_t images, int64_t positions, int64_t fewest, int64_t panels)
      : groups(divide_up(images, choice.images)),
        down(std::clamp<int64_t>(positions / fewest, 1, choice.parts)),
        across(std::min({choice.parts / down, panels, divide_up(engine_threads(), groups * down)})) {}

  int64_t slices() const { return groups * down * across; }
  int64_t group(int64_t slice) const { return slice / (down * across); }
  Range positions(int64_t slice, int64_t whole) const {
    return part_of(whole, 1, down, slice / across % down);
  }
  Range channels(int64_t slice, int64_t whole, int64_t panel) const {
    return part_of(whole, panel, across, slice % across);
  }

  int64_t groups, down, across;
};

}  // namespace dlpipe::engine::cpu
