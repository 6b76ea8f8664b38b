#include "dlpipe/engine/ops/sub.h"

#include "dlpipe/engine/cuda/loops/binary.h"

namespace dlpipe::engine {

DLPIPE_CUDA_KERNELS(sub) = cuda::binary_kernels<SubFormula>();

}  // namespace dlpipe::engine
