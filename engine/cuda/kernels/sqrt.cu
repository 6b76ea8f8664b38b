#include "dlpipe/engine/ops/sqrt.h"

#include "dlpipe/engine/cuda/loops/unary.h"

namespace dlpipe::engine {

DLPIPE_CUDA_KERNELS(sqrt) = cuda::unary_kernels<SqrtFormula>();

}  // namespace dlpipe::engine
