// How one pass of a convolution runs on the CPU: the kernel, the form of its images and weights, and the
// slices into which the work is cut. A plan is made once per (pass, shape, dtype, layouts) and kept. It is
// immutable, so any thread may run it. Internal to engine/cpu.
//
// A tensor *holds* images plain (f32 or bf16) or channel-blocked (f32). If the primitive needs another
// form, each slice is converted in the worker's scratch.
//
// Slices cut the batch. If a slice is one image, they also cut the channels of its result (blocked) or its
// output rows (plain). For the gradient of deep layers' weights, whose partial sums would be larger than
// the images, slices cut the output channels of the whole batch instead.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dlpipe/op.h"
#include "engine/core/constant_cache.h"
#include "engine/cpu/conv/conv2d_choice.h"
#include "engine/cpu/loops/image_copy.h"
#include "engine/cpu/onednn/onednn.h"
#include "engine/ops/window.h"

namespace dlpipe::engine::cpu {

/// The form in which the primitive gets a slice's images.
enum class Form : uint8_t {
  kAsHeld,    // the primitive works on the tensor itself
  kPlain,     // f32 NHWC, widened from bf16
  kBlocked8,  // f32 nChw8c from plain
  kBlocked16,
  kPlanes,  // f32 NCHW from plain: a stem's three channels
};

/// Part of a tensor of images: its beginning (in elements) and its sizes.
struct Piece {
  int64_t offset = 0;
  ImageRun run;
};

struct ConvSlice {
  int variant = 0;  // index into ConvPlan::variants
  int part = 0;     // which part of the output (backward data: input) channels
  Piece x, y;
};

/// One primitive; slices of equal size share it.
struct ConvVariant {
  onednn::Primitive primitive;
  dnnl::memory::desc x, weights, bias, y;
};

struct ConvPlan {
  ConvPass pass = ConvPass::kForward;
  Conv2dShape shape;
  std::string kernel;
  bool low = false;   // the primitive computes on bf16
  bool bias = false;  // forward: adds the bias; backward weights: computes its gradient
  Form x_form = Form::kAsHeld, y_form = Form::kAsHeld;
  std::vector<ConvVariant> variants;
  std::vector<ConvSlice> slices;
  /// Backward weights: slices cut channels, and each computes its own part of the gradient.
  bool slices_cut_channels = false;
  /// The number of parts of the channels, each with its own weights: output channels for forward and
  /// backward weights, input channels for backward data.
  int64_t parts = 1;

  /// Converts one part between OIHW and the primitive's format. oihw_step: elements from one part to the next.
  onednn::FormatCopy weights_copy;
  int64_t oihw_step = 0;
  /// The ConstantForm of cached weights in the primitive's format. Plans with the same format share it, including those made
  /// again while kernels are measured.
  uint64_t form = 0;
  size_t weights_bytes() const { return variants[0].weights.get_size(); }
};

/// The plan of one pass; `held` are the layouts of the tensors that hold x and y (or their gradients).
std::shared_ptr<const ConvPlan> conv_plan(ConvPass pass, const Conv2dShape& shape, DType dtype,
                                          LayoutChoice held, bool bias);

// Makes the oneDNN primitive of one slice of a convolution. Internal to engine/cpu.

/// What one primitive computes: a convolution of some whole images, or of some rows or channels of one.
struct ConvGeometry {
  int64_t n = 0, c = 0, o = 0;
  int64_t h = 0, w = 0, oh = 0, ow = 0;
  int64_t pad_top = 0, pad_bottom = 0;
  friend bool operator==(const ConvGeometry&, const ConvGeometry&) = default;
};

/// PyTorch's weights [O, C/groups, KH, KW] of `dtype`; with groups, oneDNN sees them as [G, O/G, C/G, KH, KW].
dnnl::memory::desc oihw_desc(const Conv2dShape& shape, dnnl::memory::data_type dtype);

/// The primitive for `geometry` with the plan's pass, kernel, forms and bias. It uses weights in the format
/// `weights` unless that is null. If oneDNN doesn't have Winograd for it, `plan.kernel` becomes direct.
ConvVariant make_conv_primitive(ConvPlan& plan, LayoutChoice held, const ConvGeometry& geometry,
                                const dnnl::memory::desc* weights);

}  // namespace dlpipe::engine::cpu
