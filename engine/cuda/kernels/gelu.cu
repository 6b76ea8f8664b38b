#include "dlpipe/engine/ops/gelu.h"

#include "dlpipe/engine/cuda/loops/unary.h"

namespace dlpipe::engine {

DLPIPE_CUDA_KERNELS(gelu) = cuda::unary_kernels<GeluFormula>();

}  // namespace dlpipe::engine
