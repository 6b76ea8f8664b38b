// The global norm of all gradients, and scaling by it. One thread; works in parallel inside.
#pragma once

#include <span>

#include "dlpipe/engine/layers/module.h"

namespace dlpipe::engine {

/// L2 norm over all gradients there are, in f64; the order of the sum is fixed by the sizes alone, so that
/// the bits don't depend on threads or ISA.
double grad_norm(std::span<const NamedTensor> parameters);

/// Scales all gradients so that their global L2 norm is at most `max_norm` (by max_norm / (norm + 1e-6) when
/// that is below 1, as PyTorch does); answers the norm before. A norm that isn't finite scales nothing: the
/// caller decides (--on-nonfinite). Error (kMisuse) unless max_norm > 0.
double clip_grad_norm(std::span<const NamedTensor> parameters, double max_norm);

}  // namespace dlpipe::engine
