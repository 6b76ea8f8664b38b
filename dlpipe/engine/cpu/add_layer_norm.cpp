#include "dlpipe/engine/cpu/layer_norm.h"
#include "dlpipe/engine/ops/layer_norm.h"

namespace dlpipe::engine {

extern const Kernels add_layer_norm_cpu;
const Kernels add_layer_norm_cpu = {
    .forward =
        [](const ForwardArgs& args) {
          cpu::normalize_rows(args.inputs[0], args.inputs[1], args.outputs[0], args.inputs[2], args.inputs[3],
                              args.attrs.as<LayerNormAttrs>().epsilon, args.outputs[1], args.outputs[2],
                              args.outputs[3]);
        },
    .backward =
        [](const BackwardArgs& args) {
          cpu::normalize_rows_gradient(args.outputs[0], args.inputs[2], args.outputs[2], args.outputs[3],
                                       args.grad_outputs[0], args.grad_outputs[1],
                                       residual_gradients(args.grad_inputs), args.grad_inputs[2],
                                       args.grad_inputs[3]);
        },
    .supports = cpu::supports_normalize_rows,
};

}  // namespace dlpipe::engine
