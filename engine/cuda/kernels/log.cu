#include "dlpipe/engine/ops/log.h"

#include "dlpipe/engine/cuda/loops/unary.h"

namespace dlpipe::engine {

DLPIPE_CUDA_KERNELS(log) = cuda::unary_kernels<LogFormula>();

}  // namespace dlpipe::engine
