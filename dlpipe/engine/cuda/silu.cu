#include "dlpipe/engine/ops/silu.h"

#include "dlpipe/engine/cuda/unary.h"

namespace dlpipe::engine {

DLPIPE_CUDA_KERNELS(silu) = cuda::unary_kernels<SiluFormula>();

}  // namespace dlpipe::engine
