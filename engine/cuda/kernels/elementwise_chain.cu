// On a device a chain is its ops one after another, as it was before it was one.
#include "dlpipe/engine/ops/elementwise_chain.h"

#include "dlpipe/engine/cuda/grid/kernels_of.h"

namespace dlpipe::engine {

namespace {

bool takes(DType dtype) {
  return dtype == DType::kF32 || is_low(dtype);
}

void forward(const ForwardArgs& args) {
  run_chain(args, {takes, [](const OpRow& op, DType, const Attrs&) { return cuda::kernels_of(op); }});
}

bool supports(std::span<const TensorSpec> inputs, const Attrs&) {
  for (const TensorSpec& input : inputs) {
    if (!takes(input.dtype)) return false;
  }
  return true;
}

}  // namespace

DLPIPE_CUDA_KERNELS(elementwise_chain) = {forward, nullptr, supports};

}  // namespace dlpipe::engine
