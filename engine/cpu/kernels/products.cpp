// matmul and linear on the CPU.
#include "engine/ops/products.h"

#include <cstring>

#include "dlpipe/ops.h"
#include "engine/cpu/gemm/gemm.h"
#include "engine/cpu/loops/activation.h"
#include "engine/cpu/loops/elementwise.h"
#include "engine/cpu/loops/formula.h"

namespace dlpipe::engine {

namespace {

std::byte* matrix(const Tensor& tensor, int64_t index, int64_t elements) {
  return static_cast<std::byte*>(tensor.raw()) +
         static_cast<size_t>(index * elements) * dtype_size(tensor.dtype());
}

struct Product {
  int64_t m, n, k;
  cpu::GemmMatrix a, b;

  void into(std::byte* c, DType dtype) const { cpu::gemm(m, n, k, a, b, nullptr, c, dtype); }
};

// Computes `product(i)` into `to(i)` for i < count; all products have the same form. Many products run one per slice (a
// product inside a slice runs on that slice's thread). Few products run one after another, each cut into slices.
template <class Products, class Places>
void each_product(int64_t count, DType dtype, const Products& product, const Places& to) {
  constexpr int64_t kMany = 16;
  if (count < kMany) {
    for (int64_t i = 0; i < count; ++i) product(i).into(to(i), dtype);
    return;
  }
  const Product first = product(0);
  const bool is_settled = cpu::is_gemm_settled(first.m, first.n, first.k, first.a, first.b, dtype);
  const int64_t begin = is_settled ? 0 : 1;
  parallel_slices(begin, [&](int64_t) { first.into(to(0), dtype); });
  parallel_slices(count - begin, [&](int64_t i) { product(begin + i).into(to(begin + i), dtype); });
}

void matmul_forward(const ForwardArgs& args) {
  const auto& attrs = args.attrs.as<MatmulAttrs>();
  const Tensor& a = args.inputs[0];
  const Tensor& b = args.inputs[1];
  const MatmulShape s(a.shape(), b.shape(), attrs);
  const auto product = [&](int64_t i) {
    return Product{s.m,
                   s.n,
                   s.k,
                   {matrix(a, s.a_matrix[static_cast<size_t>(i)], s.m * s.k), attrs.transpose_a},
                   {matrix(b, s.b_matrix[static_cast<size_t>(i)], s.k * s.n), attrs.transpose_b}};
  };
  each_product(s.matrices(), a.dtype(), product,
               [&](int64_t i) { return matrix(args.outputs[0], i, s.m * s.n); });
}

void add_to(const Tensor& part, float* sum) {
  cpu::stored(part.dtype(), [&]<class T>(T*) {
    const T* from = static_cast<const T*>(part.raw());
    cpu::on_best_isa([=, count = part.elements()]() DLPIPE_INLINE {
      for (int64_t i = 0; i < count; ++i) sum[i] += cpu::load_one(from + i);
    });
  });
}

// One operand's gradient, from one product per matrix of the output. If the operand was broadcast, its
// products are added in order, in f32.
template <class Products>
void operand_gradient(const Tensor& grad, const std::vector<int64_t>& matrix_of, int64_t elements,
                      const Products& product) {
  if (!grad.defined()) return;
  const auto count = static_cast<int64_t>(matrix_of.size());
  if (grad.elements() == count * elements) {
    return each_product(count, grad.dtype(), product,
                        [&](int64_t i) { return matrix(grad, matrix_of[static_cast<size_t>(i)], elements); });
  }
  const Tensor sums = grad.dtype() == DType::kF32 ? grad : Tensor::empty(grad.shape());
  std::memset(sums.raw(), 0, sums.size_bytes());
  const Tensor part = Tensor::empty({{elements}, grad.dtype()});
  for (int64_t i = 0; i < count; ++i) {
    product(i).into(static_cast<std::byte*>(part.raw()), grad.dtype());
    add_to(part, sums.data<float>() + matrix_of[static_cast<size_t>(i)] * elements);
  }
  if (grad.dtype() == DType::kF32) return;
  cpu::stored(grad.dtype(), [&]<class T>(T*) {
    for (int64_t i = 0; i < grad.elements(); ++i)
      cpu::store_one(static_cast<T*>(grad.raw()) + i, sums.data<float>()[i]);
  });
}

// dA = dC B^T and dB = A^T dC, each transposed if its operand was.
void matmul_backward(const BackwardArgs& args) {
  const auto& attrs = args.attrs.as<MatmulAttrs>();
  const Tensor& a = args.inputs[0];
  const Tensor& b = args.inputs[1];
  const Tensor& grad = args.grad_outputs[0];
  const MatmulShape s(a.shape(), b.shape(), attrs);
  operand_gradient(args.grad_inputs[0], s.a_matrix, s.m * s.k, [&](int64_t i) {
    const std::byte* g = matrix(grad, i, s.m * s.n);
    const std::byte* bi = matrix(b, s.b_matrix[static_cast<size_t>(i)], s.k * s.n);
    return attrs.transpose_a ? Product{s.k, s.m, s.n, {bi, attrs.transpose_b}, {g, true}}
                             : Product{s.m, s.k, s.n, {g}, {bi, !attrs.transpose_b}};
  });
  operand_gradient(args.grad_inputs[1], s.b_matrix, s.k * s.n, [&](int64_t i) {
    const std::byte* g = matrix(grad, i, s.m * s.n);
    const std::byte* ai = matrix(a, s.a_matrix[static_cast<size_t>(i)], s.m * s.k);
    return attrs.transpose_b ? Product{s.n, s.k, s.m, {g, true}, {ai, attrs.transpose_a}}
                             : Product{s.k, s.n, s.m, {ai, !attrs.transpose_a}, {g}};
  });
}

}  // namespace

extern const Kernels matmul_cpu;
const Kernels matmul_cpu = {.forward = matmul_forward,
                            .backward = matmul_backward,
                            .supports = cpu::supports_f32_bf16,
                            .same_bits_on_every_isa = false};  // oneDNN chooses its own order of sums

namespace {

struct Sizes {
  int64_t rows = 1, in, out;
  Sizes(const Tensor& y, const Tensor& weight) : in(weight.size(1)), out(weight.size(0)) {
    for (int axis = 0; axis < y.rank() - 1; ++axis) rows *= y.size(axis);
  }
};

void linear_forward(const ForwardArgs& args) {
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

void linear_backward(const BackwardArgs& args) {
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
const Kernels linear_cpu = {.forward = linear_forward,
                            .backward = linear_backward,
                            .supports = cpu::supports_f32_bf16,
                            .fused = cpu::fused_kernels<LinearAttrs>,
                            .same_bits_on_every_isa = false};  // oneDNN chooses its own order of sums

}  // namespace dlpipe::engine
