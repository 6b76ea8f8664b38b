#include "dlpipe/engine/cuda/layer_norm.h"
#include "dlpipe/engine/ops/layer_norm.h"

namespace dlpipe::engine {

DLPIPE_CUDA_KERNELS(add_layer_norm) = {
    .forward =
        [](const ForwardArgs& args) {
          cuda::normalize_rows(args.inputs[0], args.inputs[1], args.outputs[0], args.inputs[2],
                               args.inputs[3], args.attrs.as<LayerNormAttrs>().epsilon, args.outputs[1],
                               args.outputs[2], args.outputs[3]);
        },
    .backward =
        [](const BackwardArgs& args) {
          cuda::normalize_rows_gradient(args.outputs[0], args.inputs[2], args.outputs[2], args.outputs[3],
                                        args.grad_outputs[0], args.grad_outputs[1],
                                        residual_gradients(args.grad_inputs), args.grad_inputs[2],
                                        args.grad_inputs[3]);
        },
    .supports = cuda::supports_normalize_rows,
};

}  // namespace dlpipe::engine
