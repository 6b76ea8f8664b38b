// The built-in rules for convolutions: which layout, kernel and slices, as functions of shape, dtype and ISA.
// What was measured to find them is told beside them. Internal to engine/cpu.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "dlpipe/engine/core/kernel_table.h"
#include "dlpipe/engine/core/op.h"
#include "dlpipe/engine/ops/window.h"

namespace dlpipe::engine::cpu {

enum class ConvPass : uint8_t { kForward, kBackwardData, kBackwardWeights };

/// The layouts that a convolution should run in; only f32 images have blocked ones.
LayoutChoice conv_layouts(const Conv2dShape& shape, DType dtype);

/// "n32 56x56x64 o64 k3x3 s1x1 p1x1 d1x1 g1 f32 avx2": the part of a table key that all passes share.
std::string conv_key(const Conv2dShape& shape, DType dtype);

/// Kernel and slices for one pass of a convolution whose output is channel-blocked or not: the table's, or
/// the rule's.
KernelChoice conv_choice(ConvPass pass, const Conv2dShape& shape, DType dtype, int block);

/// Where the table is told to measure: which kernel is best for this pass, by run(), which does it.
void measure_conv(ConvPass pass, const Conv2dShape& shape, DType dtype, const std::function<void()>& run);

/// What conv_choice takes, and why not something faster: for --explain.
std::string conv_explanation(ConvPass pass, const Conv2dShape& shape, DType dtype);

/// The same where that is our Winograd (conv2d_winograd.h).
std::optional<KernelChoice> winograd_choice(ConvPass pass, const Conv2dShape& shape, DType dtype);
inline constexpr const char* kOwnWinograd = "winograd4x4";
/// Tiles of a part of an image, at least, where several slices share it.
inline constexpr int64_t kWinogradTilesAPart = 24;

/// The same of a forward pass where that is our product of pixels and weights (conv2d_product.h) and takes images that are held so.
std::optional<KernelChoice> product_choice(const Conv2dShape& shape, DType dtype, LayoutChoice held);
inline constexpr const char* kOwnProduct = "product";

/// Whether a product of pixels and weights can read the image as it lies.
bool is_pointwise(const Conv2dShape& shape);

/// Whether the bf16 kernels of this ISA's oneDNN are used; otherwise bf16 is computed in f32.
bool computes_bf16();

}  // namespace dlpipe::engine::cpu
