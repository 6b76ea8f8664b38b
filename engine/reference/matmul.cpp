#include "dlpipe/engine/ops/matmul.h"

#include <algorithm>

#include "dlpipe/engine/reference/typed.h"

namespace dlpipe::engine {

namespace {

// The place of element (row, column) of a matrix that the product sees with `rows` x `columns`.
struct Place {
  int64_t rows, columns;
  bool transposed;
  int64_t operator()(int64_t row, int64_t column) const {
    return transposed ? column * rows + row : row * columns + column;
  }
};

void forward(const ForwardArgs& args) {
  const auto& attrs = args.attrs.as<MatmulAttrs>();
  const MatmulShape s(args.inputs[0].shape(), args.inputs[1].shape(), attrs);
  const Place at_a = {s.m, s.k, attrs.transpose_a};
  const Place at_b = {s.k, s.n, attrs.transpose_b};
  reference::typed(args.outputs[0].dtype(), [&]<class T>(T) {
    for (int64_t i = 0; i < s.matrices(); ++i) {
      const T* a = args.inputs[0].data<T>() + s.a_matrix[i] * s.m * s.k;
      const T* b = args.inputs[1].data<T>() + s.b_matrix[i] * s.k * s.n;
      T* c = args.outputs[0].data<T>() + i * s.m * s.n;
      for (int64_t m = 0; m < s.m; ++m) {
        for (int64_t n = 0; n < s.n; ++n) {
          T sum = 0;
          for (int64_t k = 0; k < s.k; ++k) sum += a[at_a(m, k)] * b[at_b(k, n)];
          c[m * s.n + n] = sum;
        }
      }
    }
  });
}

// dA = dC B^T and dB = A^T dC, each in the form in which the operand was given.
void backward(const BackwardArgs& args) {
  const auto& attrs = args.attrs.as<MatmulAttrs>();
  const MatmulShape s(args.inputs[0].shape(), args.inputs[1].shape(), attrs);
  const Place at_a = {s.m, s.k, attrs.transpose_a};
  const Place at_b = {s.k, s.n, attrs.transpose_b};
  reference::typed(args.inputs[0].dtype(), [&]<class T>(T) {
    T* grads[2] = {nullptr, nullptr};
    for (size_t i = 0; i < 2; ++i) {
      const Tensor& grad = args.grad_inputs[i];
      if (!grad.defined()) continue;
      grads[i] = grad.data<T>();
      std::fill_n(grads[i], grad.elements(), T(0));
    }
    for (int64_t i = 0; i < s.matrices(); ++i) {
      const int64_t a = s.a_matrix[i] * s.m * s.k;
      const int64_t b = s.b_matrix[i] * s.k * s.n;
      const T* grad = args.grad_outputs[0].data<T>() + i * s.m * s.n;
      for (int64_t m = 0; m < s.m; ++m) {
        for (int64_t n = 0; n < s.n; ++n) {
          const T g = grad[m * s.n + n];
          for (int64_t k = 0; k < s.k; ++k) {
            if (grads[0]) grads[0][a + at_a(m, k)] += g * args.inputs[1].data<T>()[b + at_b(k, n)];
            if (grads[1]) grads[1][b + at_b(k, n)] += g * args.inputs[0].data<T>()[a + at_a(m, k)];
          }
        }
      }
    }
  });
}

}  // namespace

extern const Kernels matmul_reference;
const Kernels matmul_reference = {.forward = forward, .backward = backward};

}  // namespace dlpipe::engine
