#include "dlpipe/engine/ops/conv_unit.h"

#include "dlpipe/engine/cuda/grid/grid.h"

namespace dlpipe::engine {

extern const Kernels DLPIPE_CUDA_KERNELS_OF(add);
extern const Kernels DLPIPE_CUDA_KERNELS_OF(clip);
extern const Kernels DLPIPE_CUDA_KERNELS_OF(conv2d);
extern const Kernels DLPIPE_CUDA_KERNELS_OF(silu);

namespace {

void forward(const ForwardArgs& args) {
  run_in_parts({DLPIPE_CUDA_KERNELS_OF(conv2d), DLPIPE_CUDA_KERNELS_OF(clip), DLPIPE_CUDA_KERNELS_OF(silu),
                DLPIPE_CUDA_KERNELS_OF(add)},
               args);
}

bool supports(std::span<const TensorSpec> inputs, const Attrs& attrs) {
  return DLPIPE_CUDA_KERNELS_OF(conv2d).supports(inputs, Attrs(attrs.as<ConvUnitAttrs>().conv2d()));
}

}  // namespace

DLPIPE_CUDA_KERNELS(conv_unit) = {forward, nullptr, supports};

}  // namespace dlpipe::engine
