#include "dlpipe/engine/cuda/loops/reduction.h"

namespace dlpipe::engine {

DLPIPE_CUDA_KERNELS(mean) = cuda::reduction_kernels<true>();

}  // namespace dlpipe::engine
