#include "dlpipe/engine/ops/div.h"

#include "dlpipe/engine/cuda/loops/binary.h"

namespace dlpipe::engine {

DLPIPE_CUDA_KERNELS(div) = cuda::binary_kernels<DivFormula>();

}  // namespace dlpipe::engine
