#include "dlpipe/engine/ops/mul.h"

#include "dlpipe/engine/cuda/loops/binary.h"

namespace dlpipe::engine {

DLPIPE_CUDA_KERNELS(mul) = cuda::binary_kernels<MulFormula>();

}  // namespace dlpipe::engine
