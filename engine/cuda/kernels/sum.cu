#include "dlpipe/engine/cuda/loops/reduction.h"

namespace dlpipe::engine {

DLPIPE_CUDA_KERNELS(sum) = cuda::reduction_kernels<false>();

}  // namespace dlpipe::engine
