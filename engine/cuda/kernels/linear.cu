#include "dlpipe/engine/cuda/gemm/gemm.h"
#include "dlpipe/engine/cuda/kernels/activation.h"
#include "dlpipe/engine/cuda/kernels/row_pitch.h"
#include "dlpipe/engine/cuda/loops/axis_sums.h"
#include "dlpipe/engine/ops/ops.h"
#include "dlpipe/engine/ops/window.h"

namespace dlpipe::engine {
namespace {

struct Sizes {
  int64_t rows, in, out;
  Sizes(const Tensor& y, const Tensor& weight)
      : rows(weight.size(0) == 0 ? 0 : y.elements() / weight.size(0)),
        in(weight.size(1)),
        out(weight.size(0)) {}
};

/// Whether it could: a bias needs cublasLt.
bool multiply_aligned(const ForwardArgs& args, const Tensor& y, const Sizes& s, const cuda::GemmMatrix& of_x,
                      const cuda::GemmMatrix& of_weight) {
  if (!cuda::is_better_aligned(y.dtype(), s.rows, s.out)) return false;
  const int64_t pitch = cuda::aligned_pitch(s.out);
  const Tensor wide = Tensor::empty({{s.rows, pitch}, y.dtype()}, y.device());
  const cuda::GemmResult to = {wide.raw(), pitch, 0, y.dtype()};
  if (!has_input(args.inputs, 2)) {
    cuda::gemm(s.rows, s.out, s.in, of_x, of_weight, to, y.dtype());
  } else if (!cuda::gemm_with(cuda::GemmEpilogue::kBias, args.inputs[2].raw(), s.rows, s.out, s.in, of_x,
                              of_weight, to, y.dtype())) {
    return false;
  }
  cuda::copy_rows(wide.raw(), pitch, y.raw(), s.out, s.rows, s.out);
  return true;
}

void multiply(const ForwardArgs& args, const Tensor& y) {
  const Tensor& x = args.inputs[0];
  const Tensor& weight = args.inputs[1];
  const Sizes s(y, weight);
  const bool has_bias = has_input(args.inputs, 2);
  const cuda::GemmMatrix of_x = {x.raw(), s.in};
  const cuda::GemmMatrix of_weight = {weight.raw(), s.in, true};
  if (multiply_aligned(args, y, s, of_x, of_weight)) return;
  if (has_bias && cuda::gemm_with(cuda::GemmEpilogue::kBias, args.inputs[2].raw(), s.rows, s.out, s.in, of_x,
                                  of_weight, {y.raw(), s.out, 0, y.dtype()}, x.dtype()))
    return;
  if (has_bias)
    cuda::stored(y.dtype(), [&](auto type) { cuda::fill_rows<decltype(type)>(args.inputs[2], y); });
  cuda::gemm(s.rows, s.out, s.in, of_x, of_weight, {y.raw(), s.out, 0, y.dtype(), has_bias}, x.dtype());
}

void forward(const ForwardArgs& args) {
  const Tensor& product = product_of(args.outputs);
  multiply(args, product);
  cuda::activate(args.attrs.as<LinearAttrs>().activation, product, args.outputs[0]);
}

void backward(const BackwardArgs& args) {
  const Tensor& x = args.inputs[0];
  const Tensor& weight = args.inputs[1];
  const Tensor& grad = args.grad_outputs[0];
  const Sizes s(grad, weight);
  const DType dtype = grad.dtype();
  const bool is_copied = cuda::is_better_aligned(dtype, s.rows, s.out);
  const int64_t pitch = is_copied ? cuda::aligned_pitch(s.out) : s.out;
  const Tensor rows = is_copied ? Tensor::empty({{s.rows, pitch}, dtype}, grad.device()) : grad;
  if (is_copied) cuda::copy_rows(grad.raw(), s.out, rows.raw(), pitch, s.rows, s.out);
  if (const Tensor& grad_x = args.grad_inputs[0]; grad_x.defined()) {
    cuda::gemm(s.rows, s.in, s.out, {rows.raw(), pitch}, {weight.raw(), s.in}, {grad_x.raw(), s.in, 0, dtype},
               dtype);
  }
  const bool wants_bias = args.grad_inputs.size() > 2 && args.grad_inputs[2].defined();
  if (const Tensor& grad_weight = args.grad_inputs[1]; grad_weight.defined()) {
    const cuda::GemmMatrix of_grad = {rows.raw(), pitch, true};
    const cuda::GemmMatrix of_x = {x.raw(), s.in};
    const cuda::GemmResult to = {grad_weight.raw(), s.in, 0, dtype};
    if (wants_bias && cuda::gemm_with(cuda::GemmEpilogue::kSumsOfA, args.grad_inputs[2].raw(), s.out, s.in,
                                      s.rows, of_grad, of_x, to, dtype))
      return;
    cuda::gemm(s.out, s.in, s.rows, of_grad, of_x, to, dtype);
  }
  if (wants_bias) {
    cuda::stored(dtype, [&](auto type) {
      using T = decltype(type);
      cuda::sum_axes<T, T>(grad, bit(grad.rank() - 1) - 1, 1.0f, args.grad_inputs[2]);
    });
  }
}

}  // namespace

DLPIPE_CUDA_KERNELS(linear) = {forward, backward, cuda::supports_stored, nullptr,
                               cuda::fused_kernels<LinearAttrs>};

}  // namespace dlpipe::engine
