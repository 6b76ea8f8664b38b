#include "engine/cuda/coef/coef_decode.h"

#include "engine/core/device_memory.h"
#include "engine/cuda/coef/coef_kernels.h"

namespace dlpipe::engine::cuda {

#if defined(__CUDACC__)
void coef_decode_cuda
#else
void coef_decode_cuda_simulated
#endif
    (const CoefBatch& batch, Stream& stream) {
  const UseStream use(stream);
  decode_coefficients(batch);
}

}  // namespace dlpipe::engine::cuda
