#include "dlpipe/engine/ops/layer_norm.h"
#include "dlpipe/engine/reference/element.h"
#include "dlpipe/engine/reference/layer_norm.h"

namespace dlpipe::engine {
namespace {

void forward(const ForwardArgs& args) {
  const Tensor& sum = args.outputs[0];
  for (int64_t i = 0; i < sum.elements(); ++i) {
    reference::set_element(sum, i,
                           reference::element(args.inputs[0], i) + reference::element(args.inputs[1], i));
  }
  reference::normalize_rows(sum, args.inputs[2], args.inputs[3], args.attrs.as<LayerNormAttrs>().epsilon,
                            args.outputs[1], args.outputs[2], args.outputs[3]);
}

void backward(const BackwardArgs& args) {
  reference::normalize_rows_gradient(args.outputs[0], args.inputs[2], args.outputs[2], args.outputs[3],
                                     args.grad_outputs[0], args.grad_outputs[1], args.grad_inputs.first(2),
                                     args.grad_inputs[2], args.grad_inputs[3]);
}

}  // namespace

extern const Kernels add_layer_norm_reference;
const Kernels add_layer_norm_reference = {.forward = forward, .backward = backward};

}  // namespace dlpipe::engine
