#include "dlpipe/engine/ops/exp.h"

#include "dlpipe/engine/cuda/loops/unary.h"

namespace dlpipe::engine {

DLPIPE_CUDA_KERNELS(exp) = cuda::unary_kernels<ExpFormula>();

}  // namespace dlpipe::engine
