#include "dlpipe/engine/cuda/loops/layer_norm.h"
#include "dlpipe/engine/ops/layer_norm.h"

namespace dlpipe::engine {

DLPIPE_CUDA_KERNELS(add_layer_norm) =
    add_layer_norm_kernels<cuda::normalize_rows, cuda::normalize_rows_gradient>(
        cuda::supports_normalize_rows);

}  // namespace dlpipe::engine
