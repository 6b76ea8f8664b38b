// Shared by the reference kernels, single-threaded: dispatch by dtype (f32 and f64), access to elements of any dtype, the
// kernels of an elementwise op from its formula (ops/elementwise.h), and the activation after a product.
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include "base/text.h"
#include "dlpipe/op.h"
#include "dlpipe/tensor.h"
#include "engine/ops/elementwise.h"
#include "engine/ops/unary.h"

namespace dlpipe::engine::reference {

// Dispatch from a run-time dtype to a loop over f32 or f64.

/// Calls body(T{}) with the C++ type of `dtype`; T is float or double.
template <class Body>
void typed(DType dtype, const Body& body) {
  switch (dtype) {
    case DType::kF32:
      return body(float{});
    case DType::kF64:
      return body(double{});
    default:
      throw Error(Status(ErrorCode::kUnsupported,
                         concat("[reference] no kernel for ", dtype_name(dtype), "; cast() to f32 first")));
  }
}

// One element of a floating-point tensor of any dtype, for reference kernels of ops that mix dtypes. The tensor is plain,
// contiguous and on the host.

inline double element(const Tensor& tensor, int64_t i) {
  switch (tensor.dtype()) {
    case DType::kF64:
      return tensor.data<double>()[i];
    case DType::kBF16:
      return static_cast<float>(tensor.data<BFloat16>()[i]);
    case DType::kF16:
      return static_cast<float>(tensor.data<Float16>()[i]);
    default:
      return tensor.data<float>()[i];
  }
}

/// Rounds `value` to the tensor's dtype.
inline void set_element(const Tensor& tensor, int64_t i, double value) {
  switch (tensor.dtype()) {
    case DType::kF64:
      tensor.data<double>()[i] = value;
      return;
    case DType::kBF16:
      tensor.data<BFloat16>()[i] = BFloat16(static_cast<float>(value));
      return;
    case DType::kF16:
      tensor.data<Float16>()[i] = Float16(static_cast<float>(value));
      return;
    default:
      tensor.data<float>()[i] = static_cast<float>(value);
  }
}

// The plain loops around an elementwise formula (ops/elementwise.h): f32 and f64, one thread.

template <UnaryFormula F>
void unary_forward(const ForwardArgs& args) {
  const auto& attrs = args.attrs.as<typename F::Attrs>();
  typed(args.inputs[0].dtype(), [&]<class T>(T) {
    const T* x = args.inputs[0].data<T>();
    T* y = args.outputs[0].data<T>();
    for (int64_t i = 0; i < args.inputs[0].elements(); ++i) y[i] = F::forward(x[i], attrs);
  });
}

template <UnaryFormula F>
void unary_backward(const BackwardArgs& args) {
  const auto& attrs = args.attrs.as<typename F::Attrs>();
  const Tensor& grad_x = args.grad_inputs[0];
  typed(grad_x.dtype(), [&]<class T>(T) {
    const T* grad = args.grad_outputs[0].data<T>();
    const T* saved = grad;
    if constexpr (F::kSaved == Saved::kInput) saved = args.inputs[0].data<T>();
    if constexpr (F::kSaved == Saved::kOutput) saved = args.outputs[0].data<T>();
    T* to = grad_x.data<T>();
    for (int64_t i = 0; i < grad_x.elements(); ++i) to[i] = F::backward(grad[i], saved[i], attrs);
  });
}

template <UnaryFormula F>
constexpr Kernels unary_kernels() {
  return {unary_forward<F>, unary_backward<F>, nullptr};
}

/// Walks a row-major index over `shape`. offset(k) is the offset of that element in operand k, which is broadcast to `shape`.
class BroadcastIndex {
 public:
  BroadcastIndex(const Shape& shape, const Shape& a, const Shape& b) : shape_(shape) {
    set_strides(0, a);
    set_strides(1, b);
  }
  int64_t offset(int operand) const { return offsets_[operand]; }
  void next() {
    for (int axis = shape_.rank() - 1; axis >= 0; --axis) {
      for (int k = 0; k < 2; ++k) offsets_[k] += strides_[k][axis];
      if (++index_[axis] < shape_[axis]) return;
      for (int k = 0; k < 2; ++k) offsets_[k] -= strides_[k][axis] * shape_[axis];
      index_[axis] = 0;
    }
  }

 private:
  void set_strides(int operand, const Shape& shape) {
    int64_t stride = 1;
    for (int i = 1; i <= shape.rank(); ++i) {
      const int64_t size = shape[shape.rank() - i];
      strides_[operand][shape_.rank() - i] = size == 1 ? 0 : stride;
      stride *= size;
    }
  }

  Shape shape_;
  std::array<int64_t, Shape::kMaxRank> index_{};
  std::array<std::array<int64_t, Shape::kMaxRank>, 2> strides_{};
  std::array<int64_t, 2> offsets_{};
};

template <class F>
void binary_forward(const ForwardArgs& args) {
  const Tensor& out = args.outputs[0];
  typed(out.dtype(), [&]<class T>(T) {
    const T* a = args.inputs[0].data<T>();
    const T* b = args.inputs[1].data<T>();
    T* y = out.data<T>();
    BroadcastIndex at(out.shape(), args.inputs[0].shape(), args.inputs[1].shape());
    for (int64_t i = 0; i < out.elements(); ++i, at.next())
      y[i] = F::forward(a[at.offset(0)], b[at.offset(1)]);
  });
}

/// F::grad_a(grad, a, b) and F::grad_b(grad, a, b), summed over the axes along which an operand was
/// broadcast. a and b are zeros if the formula doesn't save its inputs.
template <class F>
void binary_backward(const BackwardArgs& args) {
  const Tensor& grad_out = args.grad_outputs[0];
  typed(grad_out.dtype(), [&]<class T>(T) {
    const T* grad = grad_out.data<T>();
    const T* a = F::kSaves ? args.inputs[0].data<T>() : nullptr;
    const T* b = F::kSaves ? args.inputs[1].data<T>() : nullptr;
    for (int operand = 0; operand < 2; ++operand) {
      const Tensor& grad_in = args.grad_inputs[operand];
      if (!grad_in.defined()) continue;
      T* to = grad_in.data<T>();
      std::fill_n(to, grad_in.elements(), T(0));
      const Shape& shape_a = F::kSaves ? args.inputs[0].shape() : grad_in.shape();
      const Shape& shape_b = F::kSaves ? args.inputs[1].shape() : grad_in.shape();
      BroadcastIndex at(grad_out.shape(), shape_a, shape_b);
      for (int64_t i = 0; i < grad_out.elements(); ++i, at.next()) {
        const T av = F::kSaves ? a[at.offset(0)] : T(0);
        const T bv = F::kSaves ? b[at.offset(1)] : T(0);
        to[at.offset(operand)] += operand == 0 ? F::grad_a(grad[i], av, bv) : F::grad_b(grad[i], av, bv);
      }
    }
  });
}

template <class F>
constexpr Kernels binary_kernels() {
  return {binary_forward<F>, binary_backward<F>, nullptr};
}

template <class F>
constexpr Kernels formula_kernels() {
  if constexpr (BinaryFormula<F>) {
    return binary_kernels<F>();
  } else {
    return unary_kernels<F>();
  }
}

}  // namespace dlpipe::engine::reference

namespace dlpipe::engine {

// The activation after a product, with the loops of its own op. One thread.

extern const Kernels relu_reference;
extern const Kernels gelu_reference;

namespace reference {

/// For Kernels::fused.
template <class OpAttrs>
const Kernels* fused_kernels(const Attrs& attrs) {
  return of_activation(attrs.as<OpAttrs>().activation, relu_reference, gelu_reference);
}

/// to = the activation of `from`; for relu they may be the same tensor. Does nothing for kNone.
inline void activate(Activation activation, const Tensor& from, const Tensor& to) {
  with_formula(activation, [&]<class F>(F) {
    std::vector<Tensor> inputs = {from}, outputs = {to};
    const Attrs attrs = NoAttrs{};
    unary_forward<F>({inputs, outputs, attrs});
  });
}

}  // namespace reference
}  // namespace dlpipe::engine
