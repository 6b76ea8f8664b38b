#include "dlpipe/engine/cpu/elementwise/activation.h"
#include "dlpipe/engine/cpu/gemm/gemm.h"
#include "dlpipe/engine/cpu/loops/elementwise.h"
#include "dlpipe/engine/cpu/loops/reduce.h"
#include "dlpipe/engine/ops/ops.h"

namespace dlpipe::engine {

namespace {

struct Sizes {
  int64_t rows = 1, in, out;
  Sizes(const Tensor& y, const Tensor& weight) : in(weight.size(1)), out(weight.size(0)) {
    for (int axis = 0; axis < y.rank() - 1; ++axis) rows *= y.size(axis);
  }
};

void forward(const ForwardArgs& args) {
  const Tensor& x = args.inputs[0];
  const Tensor& weight = args.inputs[1];
  const Sizes s(args.outputs[0], weight);
  const bool has_bias = args.inputs.size() > 2 && args.inputs[2].defined();
  const Tensor& product = product_of(args.outputs);
  const Tensor& y = args.outputs[0];
  const Activation activation = args.attrs.as<LinearAttrs>().activation;
  const auto activate = [&](int64_t row, int64_t rows, int64_t column, int64_t columns) {
    const int64_t first = (row * s.out + column) * static_cast<int64_t>(dtype_size(y.dtype()));
    cpu::activate_rows(activation, y.dtype(), static_cast<const std::byte*>(product.raw()) + first,
                       static_cast<std::byte*>(y.raw()) + first, rows, columns, s.out);
  };
  cpu::gemm(s.rows, s.out, s.in, {x.raw()}, {weight.raw(), true, &weight},
            has_bias ? args.inputs[2].raw() : nullptr, product.raw(), x.dtype(),
            activation == Activation::kNone ? cpu::GemmPartDone() : cpu::GemmPartDone(activate));
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
const Kernels linear_cpu = {.forward = forward,
                            .backward = backward,
                            .supports = cpu::supports_f32_bf16,
                            .fused = cpu::fused_kernels<LinearAttrs>,
                            .same_bits_on_every_isa = false};  // oneDNN sums in an order of its own

}  // namespace dlpipe::engine
