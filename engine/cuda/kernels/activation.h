// The activation after a product, if no library fuses it. Uses the kernels of the activation's op.
#pragma once

#include <array>

#include "engine/cuda/grid/grid.h"
#include "engine/ops/unary.h"

namespace dlpipe::engine {

extern const Kernels DLPIPE_CUDA_KERNELS_OF(relu);
extern const Kernels DLPIPE_CUDA_KERNELS_OF(gelu);

namespace cuda {
inline namespace DLPIPE_GRID_NAMESPACE {

inline const Kernels* activation_kernels(Activation activation) {
  return of_activation(activation, DLPIPE_CUDA_KERNELS_OF(relu), DLPIPE_CUDA_KERNELS_OF(gelu));
}

/// For Kernels::fused.
template <class OpAttrs>
const Kernels* fused_kernels(const Attrs& attrs) {
  return activation_kernels(attrs.as<OpAttrs>().activation);
}

/// to = the activation of `from`; for relu they may be the same. Does nothing for kNone. Runs in the calling thread's stream.
inline void activate(Activation activation, const Tensor& from, const Tensor& to) {
  if (activation == Activation::kNone) return;
  std::array<Tensor, 1> inputs = {from}, outputs = {to};
  const Attrs attrs = NoAttrs{};
  activation_kernels(activation)->forward({inputs, outputs, attrs});
}

}  // namespace DLPIPE_GRID_NAMESPACE
}  // namespace cuda
}  // namespace dlpipe::engine
