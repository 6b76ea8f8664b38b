#include "dlpipe/engine/ops/matmul.h"

#include <cstring>

#include "dlpipe/engine/cpu/gemm/gemm.h"
#include "dlpipe/engine/cpu/loops/elementwise.h"

namespace dlpipe::engine {

namespace {

std::byte* matrix(const Tensor& tensor, int64_t index, int64_t elements) {
  return static_cast<std::byte*>(tensor.raw()) +
         static_cast<size_t>(index * elements) * dtype_size(tensor.dtype());
}

// Many matrices: one per slice (a product inside a slice runs on that slice's thread). Few: each cut by itself.
template <class Body>
void each_matrix(int64_t count, const Body& body) {
  constexpr int64_t kMany = 16;
  if (count >= kMany) return parallel_slices(count, body);
  for (int64_t i = 0; i < count; ++i) body(i);
}

void forward(const ForwardArgs& args) {
  const auto& attrs = args.attrs.as<MatmulAttrs>();
  const Tensor& a = args.inputs[0];
  const Tensor& b = args.inputs[1];
  const MatmulShape s(a.shape(), b.shape(), attrs);
  each_matrix(s.matrices(), [&](int64_t i) {
    cpu::gemm(s.m, s.n, s.k, {matrix(a, s.a_matrix[static_cast<size_t>(i)], s.m * s.k), attrs.transpose_a},
              {matrix(b, s.b_matrix[static_cast<size_t>(i)], s.k * s.n), attrs.transpose_b}, nullptr,
              matrix(args.outputs[0], i, s.m * s.n), a.dtype());
  });
}

void add_to(const Tensor& part, float* sum) {
  cpu::stored(part.dtype(), [&]<class T>(T*) {
    const T* from = static_cast<const T*>(part.raw());
    cpu::on_best_isa([=, count = part.elements()]() DLPIPE_INLINE {
      for (int64_t i = 0; i < count; ++i) sum[i] += cpu::load_one(from + i);
    });
  });
}

// One operand's gradient: a product for each matrix of the output, added in order, in f32, where the operand was
// stretched.
template <class Product>
void operand_gradient(const Tensor& grad, const std::vector<int64_t>& matrix_of, int64_t elements,
                      const Product& product) {
  if (!grad.defined()) return;
  const auto count = static_cast<int64_t>(matrix_of.size());
  if (grad.elements() == count * elements) {
    each_matrix(count,
                [&](int64_t i) { product(i, matrix(grad, matrix_of[static_cast<size_t>(i)], elements)); });
    return;
  }
  const Tensor sums = grad.dtype() == DType::kF32 ? grad : Tensor::empty(grad.shape());
  std::memset(sums.raw(), 0, sums.size_bytes());
  const Tensor part = Tensor::empty({{elements}, grad.dtype()});
  for (int64_t i = 0; i < count; ++i) {
    product(i, static_cast<std::byte*>(part.raw()));
    add_to(part, sums.data<float>() + matrix_of[static_cast<size_t>(i)] * elements);
  }
  if (grad.dtype() == DType::kF32) return;
  cpu::stored(grad.dtype(), [&]<class T>(T*) {
    for (int64_t i = 0; i < grad.elements(); ++i)
      cpu::store_one(static_cast<T*>(grad.raw()) + i, sums.data<float>()[i]);
  });
}

// dA = dC B^T and dB = A^T dC, each in the form in which the operand was given.
void backward(const BackwardArgs& args) {
  const auto& attrs = args.attrs.as<MatmulAttrs>();
  const Tensor& a = args.inputs[0];
  const Tensor& b = args.inputs[1];
  const Tensor& grad = args.grad_outputs[0];
  const MatmulShape s(a.shape(), b.shape(), attrs);
  operand_gradient(args.grad_inputs[0], s.a_matrix, s.m * s.k, [&](int64_t i, std::byte* to) {
    const std::byte* g = matrix(grad, i, s.m * s.n);
    const std::byte* bi = matrix(b, s.b_matrix[static_cast<size_t>(i)], s.k * s.n);
    if (attrs.transpose_a) {
      cpu::gemm(s.k, s.m, s.n, {bi, attrs.transpose_b}, {g, true}, nullptr, to, a.dtype());
    } else {
      cpu::gemm(s.m, s.k, s.n, {g}, {bi, !attrs.transpose_b}, nullptr, to, a.dtype());
    }
  });
  operand_gradient(args.grad_inputs[1], s.b_matrix, s.k * s.n, [&](int64_t i, std::byte* to) {
    const std::byte* g = matrix(grad, i, s.m * s.n);
    const std::byte* ai = matrix(a, s.a_matrix[static_cast<size_t>(i)], s.m * s.k);
    if (attrs.transpose_b) {
      cpu::gemm(s.n, s.k, s.m, {g, true}, {ai, attrs.transpose_a}, nullptr, to, a.dtype());
    } else {
      cpu::gemm(s.k, s.n, s.m, {ai, !attrs.transpose_a}, {g}, nullptr, to, a.dtype());
    }
  });
}

}  // namespace

extern const Kernels matmul_cpu;
const Kernels matmul_cpu = {.forward = forward,
                            .backward = backward,
                            .supports = cpu::supports_f32_bf16,
                            .same_bits_on_every_isa = false};  // oneDNN sums in an order of its own

}  // namespace dlpipe::engine
