#include "engine/ops/products.h"

#include <algorithm>

#include "dlpipe/ops.h"
#include "engine/reference/formula.h"

namespace dlpipe::engine {

namespace {

// The offset of element (row, column) of a matrix that has `rows` x `columns` in the product.
struct Place {
  int64_t rows, columns;
  bool transposed;
  int64_t operator()(int64_t row, int64_t column) const {
    return transposed ? column * rows + row : row * columns + column;
  }
};

void matmul_forward(const ForwardArgs& args) {
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

// dA = dC B^T and dB = A^T dC, each transposed if its operand was.
void matmul_backward(const BackwardArgs& args) {
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
const Kernels matmul_reference = {.forward = matmul_forward, .backward = matmul_backward};

namespace {

void linear_forward(const ForwardArgs& args) {
  const int64_t out = args.inputs[1].size(0);
  const int64_t in = args.inputs[1].size(1);
  const int64_t rows = args.outputs[0].elements() / std::max<int64_t>(1, out);
  const bool has_bias = args.inputs.size() > 2 && args.inputs[2].defined();
  reference::typed(args.outputs[0].dtype(), [&]<class T>(T) {
    const T* x = args.inputs[0].data<T>();
    const T* weight = args.inputs[1].data<T>();
    T* y = product_of(args.outputs).data<T>();
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t o = 0; o < out; ++o) {
        T sum = has_bias ? args.inputs[2].data<T>()[o] : T(0);
        for (int64_t i = 0; i < in; ++i) sum += x[row * in + i] * weight[o * in + i];
        y[row * out + o] = sum;
      }
    }
  });
  reference::activate(args.attrs.as<LinearAttrs>().activation, product_of(args.outputs), args.outputs[0]);
}

void linear_backward(const BackwardArgs& args) {
  const int64_t out = args.inputs[1].size(0);
  const int64_t in = args.inputs[1].size(1);
  const int64_t rows = args.grad_outputs[0].elements() / std::max<int64_t>(1, out);
  reference::typed(args.inputs[0].dtype(), [&]<class T>(T) {
    const T* x = args.inputs[0].data<T>();
    const T* weight = args.inputs[1].data<T>();
    const T* grad = args.grad_outputs[0].data<T>();
    T* grads[3] = {nullptr, nullptr, nullptr};
    for (size_t i = 0; i < args.grad_inputs.size(); ++i) {
      if (!args.grad_inputs[i].defined()) continue;
      grads[i] = args.grad_inputs[i].data<T>();
      std::fill_n(grads[i], args.grad_inputs[i].elements(), T(0));
    }
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t o = 0; o < out; ++o) {
        const T g = grad[row * out + o];
        for (int64_t i = 0; i < in; ++i) {
          if (grads[0]) grads[0][row * in + i] += g * weight[o * in + i];
          if (grads[1]) grads[1][o * in + i] += g * x[row * in + i];
        }
        if (grads[2]) grads[2][o] += g;
      }
    }
  });
}

}  // namespace

extern const Kernels linear_reference;
const Kernels linear_reference = {
    .forward = linear_forward, .backward = linear_backward, .fused = reference::fused_kernels<LinearAttrs>};

}  // namespace dlpipe::engine
