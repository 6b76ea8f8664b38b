// Makes the oneDNN primitive of one slice of a convolution. Internal to engine/cpu.
#pragma once

#include <cstdint>

#include "dlpipe/engine/cpu/conv/conv2d_plan.h"

namespace dlpipe::engine::cpu {

/// What one primitive computes: a whole convolution of some images, with all or part of the rows or channels.
struct ConvGeometry {
  int64_t n = 0, c = 0, o = 0;
  int64_t h = 0, w = 0, oh = 0, ow = 0;
  int64_t pad_top = 0, pad_bottom = 0;
  friend bool operator==(const ConvGeometry&, const ConvGeometry&) = default;
};

/// PyTorch's weights [O, C/groups, KH, KW] of `dtype`, for oneDNN [G, O/G, C/G, KH, KW] when there are
/// groups.
dnnl::memory::desc oihw_desc(const Conv2dShape& shape, dnnl::memory::data_type dtype);

/// The primitive for `geometry` with the plan's pass, kernel, forms and bias. It takes the weights in
/// `weights` unless that is null. A Winograd that oneDNN doesn't have becomes direct, which changes
/// `plan.kernel`.
ConvVariant make_conv_primitive(ConvPlan& plan, LayoutChoice held, const ConvGeometry& geometry,
                                const dnnl::memory::desc* weights);

}  // namespace dlpipe::engine::cpu
