#include "dlpipe/engine/ops/add.h"

#include "dlpipe/engine/cuda/loops/binary.h"

namespace dlpipe::engine {

DLPIPE_CUDA_KERNELS(add) = cuda::binary_kernels<AddFormula>();

}  // namespace dlpipe::engine
