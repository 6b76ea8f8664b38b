#include "dlpipe/engine/ops/conv_transpose2d.h"

namespace dlpipe::engine {

extern const Kernels conv2d_reference;
extern const Kernels conv_transpose2d_reference;
const Kernels conv_transpose2d_reference{
    .forward = ConvTransposeKernels<conv2d_reference>::forward,
    .backward = ConvTransposeKernels<conv2d_reference>::backward,
};

}  // namespace dlpipe::engine
