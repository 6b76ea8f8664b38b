// What kernels say in `supports` that work on f32 and bf16.
#pragma once

#include <algorithm>
#include <span>

#include "dlpipe/engine/core/op.h"

namespace dlpipe::engine::cpu {

/// Elementwise ops, norms and reductions: all inputs are f32 or bf16.
inline bool supports_f32_bf16(std::span<const TensorSpec> inputs, const Attrs&) {
  return std::all_of(inputs.begin(), inputs.end(),
                     [](const TensorSpec& spec) { return is_f32_or_bf16(spec.dtype); });
}

/// Ops whose rule says what the other inputs are by the first one.
inline bool supports_first_f32_bf16(std::span<const TensorSpec> inputs, const Attrs&) {
  return is_f32_or_bf16(inputs[0].dtype);
}

}  // namespace dlpipe::engine::cpu
