#include "dlpipe/engine/cpu/elementwise.h"
#include "dlpipe/engine/cpu/gemm.h"
#include "dlpipe/engine/cpu/reduce.h"

namespace dlpipe::engine {

namespace {

struct Sizes {
  int64_t rows, in, out;
  Sizes(const Tensor& y, const Tensor& weight) : rows(0), in(weight.size(1)), out(weight.size(0)) {
    rows = out == 0 ? 0 : y.elements() / out;
  }
};

void forward(const ForwardArgs& args) {
  const Tensor& x = args.inputs[0];
  const Tensor& weight = args.inputs[1];
  const Sizes s(args.outputs[0], weight);
  const bool has_bias = args.inputs.size() > 2 && args.inputs[2].defined();
  cpu::gemm(s.rows, s.out, s.in, {x.raw()}, {weight.raw(), true}, has_bias ? args.inputs[2].raw() : nullptr,
            args.outputs[0].raw(), x.dtype());
}

void backward(const BackwardArgs& args) {
  const Tensor& x = args.inputs[0];
  const Tensor& weight = args.inputs[1];
  const Tensor& grad = args.grad_outputs[0];
  const Sizes s(grad, weight);
  if (const Tensor& grad_x = args.grad_inputs[0]; grad_x.defined()) {
    cpu::gemm(s.rows, s.in, s.out, {grad.raw()}, {weight.raw()}, nullptr, grad_x.raw(), x.dtype());
  }
  if (const Tensor& grad_weight = args.grad_inputs[1]; grad_weight.defined()) {
    cpu::gemm(s.out, s.in, s.rows, {grad.raw(), true}, {x.raw()}, nullptr, grad_weight.raw(), x.dtype());
  }
  if (args.grad_inputs.size() > 2 && args.grad_inputs[2].defined()) {
    cpu::reduce_sum(grad, bit(grad.rank() - 1) - 1, 1.0, args.grad_inputs[2]);
  }
}

}  // namespace

extern const Kernels linear_cpu;
const Kernels linear_cpu = {.forward = forward, .backward = backward, .supports = cpu::supports_f32_bf16};

}  // namespace dlpipe::engine
