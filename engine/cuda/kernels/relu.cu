#include "dlpipe/engine/ops/relu.h"

#include "dlpipe/engine/cuda/loops/unary.h"

namespace dlpipe::engine {

DLPIPE_CUDA_KERNELS(relu) = cuda::unary_kernels<ReluFormula>();

}  // namespace dlpipe::engine
