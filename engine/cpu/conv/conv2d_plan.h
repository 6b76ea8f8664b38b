// How one pass of one convolution runs on the CPU: which kernel, in which form its images and weights go in,
// and the slices the work is cut into. A plan is made once a (pass, shape, dtype, layouts) and kept; it is
// immutable, so any thread may run it. Internal to engine/cpu.
//
// Images: a tensor *holds* them plain (f32 or bf16) or channel-blocked (f32). The primitive takes them in a
// form of its own; where the two differ, each slice is converted in the worker's scratch.
//
// Slices cut the batch; when one image is the whole slice, its output channels (blocked) or rows (plain). For
// the gradient of deep layers' weights, whose partial sums would outweigh the images, slices cut the output
// channels of the whole batch instead.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dlpipe/engine/core/constant_cache.h"
#include "dlpipe/engine/core/op.h"
#include "dlpipe/engine/cpu/conv/conv2d_choice.h"
#include "dlpipe/engine/cpu/images/image_copy.h"
#include "dlpipe/engine/cpu/onednn/onednn.h"
#include "dlpipe/engine/ops/window.h"

namespace dlpipe::engine::cpu {

/// How a slice's images reach the primitive.
enum class Form : uint8_t {
  kAsHeld,    // the primitive works on the tensor itself
  kPlain,     // f32 NHWC, widened from bf16
  kBlocked8,  // f32 nChw8c from plain
  kBlocked16,
  kPlanes,  // f32 NCHW from plain: a stem's three channels
};

/// Part of a tensor of images: where it begins (elements) and its sizes.
struct Piece {
  int64_t offset = 0;
  ImageRun run;
};

struct ConvSlice {
  int variant = 0;  // of ConvPlan::variants
  int part = 0;     // of the output (backward data: input) channels
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
  bool bias = false;  // forward: adds it; backward weights: gives its gradient
  Form x_form = Form::kAsHeld, y_form = Form::kAsHeld;
  std::vector<ConvVariant> variants;
  std::vector<ConvSlice> slices;
  /// Backward weights: slices cut channels, and each makes its own part of the gradient.
  bool slices_cut_channels = false;
  /// Parts of the channels, each with weights of its own: forward and backward weights of o, backward data of
  /// c.
  int64_t parts = 1;

  /// Between OIHW and the primitive's format, one part. oihw_step: elements from part to part.
  onednn::FormatCopy weights_copy;
  int64_t oihw_step = 0;
  /// Of weights in the primitive's format, where they are kept: plans of one format share it, also those made anew while
  /// kernels are measured.
  uint64_t form = 0;
  size_t weights_bytes() const { return variants[0].weights.get_size(); }
};

/// The plan of one pass; `held` are the layouts of the tensors that hold x and y (or their gradients).
std::shared_ptr<const ConvPlan> conv_plan(ConvPass pass, const Conv2dShape& shape, DType dtype,
                                          LayoutChoice held, bool bias);

}  // namespace dlpipe::engine::cpu
