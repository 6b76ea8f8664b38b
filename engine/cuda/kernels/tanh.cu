#include "dlpipe/engine/ops/tanh.h"

#include "dlpipe/engine/cuda/loops/unary.h"

namespace dlpipe::engine {

DLPIPE_CUDA_KERNELS(tanh) = cuda::unary_kernels<TanhFormula>();

}  // namespace dlpipe::engine
