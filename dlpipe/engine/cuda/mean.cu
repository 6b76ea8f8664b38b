#include "dlpipe/engine/cuda/reduction.h"

namespace dlpipe::engine {

DLPIPE_CUDA_KERNELS(mean) = cuda::reduction_kernels<true>();

}  // namespace dlpipe::engine
