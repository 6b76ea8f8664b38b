#include "dlpipe/engine/ops/conv_transpose2d.h"

#include "dlpipe/engine/cuda/grid/grid.h"

namespace dlpipe::engine {

extern const Kernels DLPIPE_CUDA_KERNELS_OF(conv2d);

DLPIPE_CUDA_KERNELS(conv_transpose2d) = {ConvTransposeKernels<DLPIPE_CUDA_KERNELS_OF(conv2d)>::forward,
                                         ConvTransposeKernels<DLPIPE_CUDA_KERNELS_OF(conv2d)>::backward,
                                         ConvTransposeKernels<DLPIPE_CUDA_KERNELS_OF(conv2d)>::supports};

}  // namespace dlpipe::engine
