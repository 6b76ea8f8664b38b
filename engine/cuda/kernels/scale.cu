#include "dlpipe/engine/ops/scale.h"

#include "dlpipe/engine/cuda/loops/unary.h"

namespace dlpipe::engine {

DLPIPE_CUDA_KERNELS(scale) = cuda::unary_kernels<ScaleFormula>();

}  // namespace dlpipe::engine
