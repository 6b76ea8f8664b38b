#include "dlpipe/engine/ops/sigmoid.h"

#include "dlpipe/engine/cuda/loops/unary.h"

namespace dlpipe::engine {

DLPIPE_CUDA_KERNELS(sigmoid) = cuda::unary_kernels<SigmoidFormula>();

}  // namespace dlpipe::engine
