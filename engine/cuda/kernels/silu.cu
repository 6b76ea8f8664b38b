#include "dlpipe/engine/ops/silu.h"

#include "dlpipe/engine/cuda/loops/unary.h"

namespace dlpipe::engine {

DLPIPE_CUDA_KERNELS(silu) = cuda::unary_kernels<SiluFormula>();

}  // namespace dlpipe::engine
