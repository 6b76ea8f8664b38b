// What the records of both poolings share.
#pragma once

#include "dlpipe/engine/core/op.h"
#include "dlpipe/engine/ops/ops.h"
#include "dlpipe/engine/ops/window.h"

namespace dlpipe::engine {

inline OpSample pool2d_sample(const char* name, Shape x, const Pool2dAttrs& attrs) {
  OpSample sample;
  sample.name = name;
  sample.inputs = {{x}};
  sample.attrs = attrs;
  return sample;
}

/// One for each place of each window; of inputs that passed the op's shape rule.
inline double pool2d_flops(std::span<const TensorSpec> inputs, const Attrs& attrs) {
  const Pool2dShape s = pool2d_shape("pool2d", inputs[0], attrs.as<Pool2dAttrs>());
  return static_cast<double>(s.n * s.oh * s.ow * s.c) * s.kernel[0] * s.kernel[1];
}

}  // namespace dlpipe::engine
