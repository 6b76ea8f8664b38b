#include "dlpipe/engine/ops/conv_transpose2d.h"

namespace dlpipe::engine {

extern const Kernels conv2d_cpu;
extern const Kernels conv_transpose2d_cpu;
const Kernels conv_transpose2d_cpu{
    .forward = ConvTransposeKernels<conv2d_cpu>::forward,
    .backward = ConvTransposeKernels<conv2d_cpu>::backward,
    .supports = ConvTransposeKernels<conv2d_cpu>::supports,
    .choose_layout = ConvTransposeKernels<conv2d_cpu>::choose_layout,
    .same_bits_on_every_isa = false,  // as conv2d's
};

}  // namespace dlpipe::engine
