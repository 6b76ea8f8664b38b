// Elementwise formulas of two inputs (ops/elementwise.h) on CUDA, with broadcasting.
#pragma once

#include "dlpipe/engine/cuda/axis_sums.h"
#include "dlpipe/engine/cuda/unary.h"

namespace dlpipe::engine::cuda {
inline namespace DLPIPE_GRID_NAMESPACE {

/// Where the elements of one shape come from in two operands that are stretched to it.
struct Stretch {
  int count = 0;  // axes, from the outermost; neighbours that both operands walk alike are one
  int64_t size[Shape::kMaxRank] = {};
  int64_t stride[2][Shape::kMaxRank] = {};

  Stretch(const Shape& shape, const Shape& a, const Shape& b) {
    const Shape* const operands[2] = {&a, &b};
    int64_t step[2] = {1, 1};
    int axes = 0;
    // From the innermost; turned round at the end.
    for (int i = 1; i <= shape.rank(); ++i) {
      if (shape[-i] == 1) continue;
      int64_t strides[2];
      for (int k = 0; k < 2; ++k) {
        const int64_t own = i <= operands[k]->rank() ? (*operands[k])[-i] : 1;
        strides[k] = own == 1 ? 0 : step[k];
        step[k] *= own;
      }
      const bool joins = axes > 0 && strides[0] == stride[0][axes - 1] * size[axes - 1] &&
                         strides[1] == stride[1][axes - 1] * size[axes - 1];
      if (!joins) {
        size[axes] = 1;
        stride[0][axes] = strides[0];
        stride[1][axes] = strides[1];
        ++axes;
      }
      size[axes - 1] *= shape[-i];
    }
    count = axes;
    std::reverse(size, size + axes);
    std::reverse(stride[0], stride[0] + axes);
    std::reverse(stride[1], stride[1] + axes);
  }

  DLPIPE_DEVICE void offsets(int64_t i, int64_t& a, int64_t& b) const {
    a = b = 0;
    for (int axis = count - 1; axis >= 0; --axis) {
      const int64_t at = axis > 0 ? i % size[axis] : i;
      a += at * stride[0][axis];
      b += at * stride[1][axis];
      i /= size[axis];
    }
  }
};

/// to[i] = map(a, b, i) with a and b stretched.
template <class In, class Out, class Map>
struct StretchedKernel {
  static constexpr const char* kName = "stretched map";
  static constexpr int kThreads = 256;
  using Shared = NoShared;
  const In* a;
  const In* b;
  Out* to;
  int64_t elements;
  Stretch stretch;
  Map map;

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, Shared&) const {
    block.each([&](int thread) {
      const int64_t i = block.index() * kThreads + thread;
      if (i >= elements) return;
      int64_t at_a;
      int64_t at_b;
      stretch.offsets(i, at_a, at_b);
      to[i] = narrowed<Out>(map(widened(a[at_a]), widened(b[at_b]), i));
    });
  }
};

template <class In, class Out, class Map>
void launch_stretched(const Shape& shape, const Tensor& a, const Tensor& b, const Tensor& to,
                      const Map& map) {
  launch(StretchedKernel<In, Out, Map>{elements_of<In>(a), elements_of<In>(b), elements_to<Out>(to),
                                       shape.elements(), Stretch(shape, a.shape(), b.shape()), map},
         blocks_for(shape.elements(), 256));
}

template <class F>
struct BinaryMap {
  static constexpr int kInputs = 2;
  DLPIPE_DEVICE float operator()(float a, float b, int64_t) const { return F::template forward<float>(a, b); }
  DLPIPE_DEVICE float operator()(const float (&in)[2], int64_t) const {
    return F::template forward<float>(in[0], in[1]);
  }
};

template <class F, class T, int kOperand>
struct BinaryGradientMap {
  const T* grad;
  DLPIPE_DEVICE float operator()(float a, float b, int64_t i) const {
    if constexpr (kOperand == 0) return F::template grad_a<float>(widened(grad[i]), a, b);
    return F::template grad_b<float>(widened(grad[i]), a, b);
  }
};

template <class F>
void binary_forward(const ForwardArgs& args) {
  const Tensor& a = args.inputs[0];
  const Tensor& b = args.inputs[1];
  const Tensor& to = args.outputs[0];
  stored(to.dtype(), [&](auto type) {
    using T = decltype(type);
    if (a.shape() == b.shape()) return launch_map<T>({a, b}, to, BinaryMap<F>());
    launch_stretched<T, T>(to.shape(), a, b, to, BinaryMap<F>());
  });
}

/// Axes of `shape` along which an operand of shape `own` was stretched.
inline uint32_t stretched_axes(const Shape& shape, const Shape& own) {
  uint32_t axes = 0;
  for (int i = 1; i <= shape.rank(); ++i) {
    if (i > own.rank() || own[-i] != shape[-i]) axes |= bit(shape.rank() - i);
  }
  return axes;
}

template <class F, int kOperand>
void binary_gradient(const BackwardArgs& args) {
  const Tensor& grad_in = args.grad_inputs[kOperand];
  if (!grad_in.defined()) return;
  const Tensor& grad = args.grad_outputs[0];
  const uint32_t stretched = stretched_axes(grad.shape(), grad_in.shape());
  stored(grad.dtype(), [&](auto type) {
    using T = decltype(type);
    if constexpr (!F::kSaves) {  // linear: the gradient times a factor
      const float factor =
          kOperand == 0 ? F::template grad_a<float>(1, 0, 0) : F::template grad_b<float>(1, 0, 0);
      return sum_axes<T, T>(grad, stretched, factor, grad_in);
    } else {
      const BinaryGradientMap<F, T, kOperand> map{elements_of<T>(grad)};
      if (stretched == 0)
        return launch_stretched<T, T>(grad.shape(), args.inputs[0], args.inputs[1], grad_in, map);
      const Tensor wide = Tensor::empty({grad.shape(), DType::kF32}, grad.device());
      launch_stretched<T, float>(grad.shape(), args.inputs[0], args.inputs[1], wide, map);
      sum_axes<float, T>(wide, stretched, 1.0f, grad_in);
    }
  });
}

template <class F>
void binary_backward(const BackwardArgs& args) {
  binary_gradient<F, 0>(args);
  binary_gradient<F, 1>(args);
}

template <class F>
constexpr Kernels binary_kernels() {
  return {binary_forward<F>, binary_backward<F>, supports_stored};
}

}  // namespace DLPIPE_GRID_NAMESPACE
}  // namespace dlpipe::engine::cuda
