#include "dlpipe/engine/ops/matmul.h"

#include "dlpipe/engine/cuda/gemm/gemm.h"
#include "dlpipe/engine/cuda/loops/strided.h"
#include "dlpipe/engine/cuda/loops/unary.h"

namespace dlpipe::engine {
namespace {

/// The matrices of a tensor that belong to those of the output, one after another.
struct Operand {
  const Tensor& tensor;
  const std::vector<int64_t>* matrix_of;  // null: the i-th for the i-th
  int64_t rows, columns;                  // as they lie in memory

  int64_t index(int64_t i) const { return matrix_of == nullptr ? i : (*matrix_of)[static_cast<size_t>(i)]; }
  int64_t step(int64_t i) const { return index(i + 1) - index(i); }
  std::byte* matrix(int64_t i) const {
    return static_cast<std::byte*>(tensor.raw()) +
           static_cast<size_t>(index(i) * rows * columns) * dtype_size(tensor.dtype());
  }
};

/// How many products from the i-th on make a batch: each operand's matrices lie evenly, and no two add to one
/// result.
int64_t batch_from(int64_t i, int64_t count, const Operand& a, const Operand& b, const Operand& c) {
  int64_t end = i + 1;
  if (end < count && a.step(i) >= 0 && b.step(i) >= 0 && c.step(i) > 0) {
    while (end < count && a.step(end - 1) == a.step(i) && b.step(end - 1) == b.step(i) &&
           c.step(end - 1) == c.step(i))
      ++end;
  }
  return end - i;
}

/// c = a b, or c += a b, for each of `count` matrices in order.
void multiply(int64_t count, const Operand& a, bool transpose_a, const Operand& b, bool transpose_b,
              const Operand& c, bool accumulate) {
  for (int64_t i = 0; i < count;) {
    const int64_t batch = batch_from(i, count, a, b, c);
    const auto stride = [&](const Operand& x) { return batch > 1 ? x.step(i) * x.rows * x.columns : 0; };
    cuda::gemm(c.rows, c.columns, transpose_a ? a.rows : a.columns,
               {a.matrix(i), a.columns, transpose_a, stride(a)},
               {b.matrix(i), b.columns, transpose_b, stride(b)},
               {c.matrix(i), c.columns, stride(c), c.tensor.dtype(), accumulate}, a.tensor.dtype(), batch);
    i += batch;
  }
}

/// With one b for all of a's rows, the products are one.
MatmulShape merged_shape(const Tensor& a, const Tensor& b, const MatmulAttrs& attrs) {
  MatmulShape s(a.shape(), b.shape(), attrs);
  if (!attrs.transpose_a && b.elements() == s.k * s.n && a.elements() == s.matrices() * s.m * s.k) {
    s.m *= s.matrices();
    s.a_matrix = s.b_matrix = {0};
  }
  return s;
}

/// The operands a and b of the product, and the output or its gradient, as they lie in memory.
struct Operands {
  MatmulShape s;
  Operand a, b, c;

  Operands(const Tensor& a_, const Tensor& b_, const Tensor& c_, const MatmulAttrs& attrs)
      : s(merged_shape(a_, b_, attrs)),
        a{a_, &s.a_matrix, attrs.transpose_a ? s.k : s.m, attrs.transpose_a ? s.m : s.k},
        b{b_, &s.b_matrix, attrs.transpose_b ? s.n : s.k, attrs.transpose_b ? s.k : s.n},
        c{c_, nullptr, s.m, s.n} {}
  Operands(const Operands&) = delete;
  Operands& operator=(const Operands&) = delete;
};

void forward(const ForwardArgs& args) {
  const auto& attrs = args.attrs.as<MatmulAttrs>();
  const Operands of(args.inputs[0], args.inputs[1], args.outputs[0], attrs);
  multiply(of.s.matrices(), of.a, attrs.transpose_a, of.b, attrs.transpose_b, of.c, false);
}

/// The gradient of a stretched operand is the sum of products in their order, in f32.
void operand_gradient(int64_t count, const Operand& left, bool transpose_left, const Operand& right,
                      bool transpose_right, const Operand& operand, const Tensor& grad) {
  if (!grad.defined()) return;
  const auto multiply_into = [&](const Tensor& to, bool accumulate) {
    multiply(count, left, transpose_left, right, transpose_right,
             {to, operand.matrix_of, operand.rows, operand.columns}, accumulate);
  };
  if (grad.elements() == count * operand.rows * operand.columns) return multiply_into(grad, false);
  const bool narrow = is_low(grad.dtype());
  const Tensor sum = narrow ? Tensor::empty({grad.shape(), DType::kF32}, grad.device()) : grad;
  cuda::zero(sum);
  multiply_into(sum, true);
  cuda::stored(grad.dtype(), [&](auto type) {
    using T = decltype(type);
    if constexpr (!std::is_same_v<T, float>) cuda::launch_map<float, T>({sum}, grad, cuda::Same());
  });
}

/// dA = dC B^T and dB = A^T dC, each in the form in which the operand was given.
void backward(const BackwardArgs& args) {
  const auto& attrs = args.attrs.as<MatmulAttrs>();
  const Operands of(args.inputs[0], args.inputs[1], args.grad_outputs[0], attrs);
  const int64_t count = of.s.matrices();
  if (attrs.transpose_a) {
    operand_gradient(count, of.b, attrs.transpose_b, of.c, true, of.a, args.grad_inputs[0]);
  } else {
    operand_gradient(count, of.c, false, of.b, !attrs.transpose_b, of.a, args.grad_inputs[0]);
  }
  if (attrs.transpose_b) {
    operand_gradient(count, of.c, true, of.a, attrs.transpose_a, of.b, args.grad_inputs[1]);
  } else {
    operand_gradient(count, of.a, !attrs.transpose_a, of.c, false, of.b, args.grad_inputs[1]);
  }
}

}  // namespace

DLPIPE_CUDA_KERNELS(matmul) = {forward, backward, cuda::supports_stored};

}  // namespace dlpipe::engine
