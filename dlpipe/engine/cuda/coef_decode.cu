#include "dlpipe/engine/cuda/coef_decode.h"

#include "dlpipe/engine/cuda/coef_kernels.h"

namespace dlpipe::engine::cuda {

#if defined(__CUDACC__)
const CoefDecode coef_decode_cuda
#else
const CoefDecode coef_decode_cuda_simulated
#endif
    = {decode_coefficients};

}  // namespace dlpipe::engine::cuda
