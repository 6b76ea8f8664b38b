// The kernels of an elementwise op, made from its formula (ops/elementwise.h), as `dlpipe_register(op NAME
// ELEMENTWISE)` registers them on this backend.
#pragma once

#include "engine/cuda/grid/elements.h"
#include "engine/cuda/loops/sums.h"
#include "engine/ops/elementwise.h"

namespace dlpipe::engine::cuda {
inline namespace DLPIPE_GRID_NAMESPACE {

// Formulas with one input: sixteen bytes per thread.

/// to[i] = map(the loaded inputs at i). `Map` is a struct with
///   static constexpr int kInputs; float operator()(const float (&in)[kInputs], int64_t i).
/// Each thread has its own copy of the Map, which gets the thread's elements in order. The first is at a multiple of four.
template <class In, class Out, class Map>
struct MapKernel {
  static constexpr const char* kName = "map";
  static constexpr int kThreads = 256;
  static constexpr int kWidth = kMapWidth<In, Out>;
  static_assert(kWidth % 4 == 0);
  using Shared = NoShared;
  const In* from[Map::kInputs];
  Out* to;
  int64_t count;
  bool in_packs;  // all pointers are aligned to packs
  Map map;

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, Shared&) const {
    block.each([&](int thread) {
      const int64_t first = (block.index() * kThreads + thread) * kWidth;
      Map own = map;
      if (in_packs && first + kWidth <= count) {
        Pack<In, kWidth> in[Map::kInputs];
        for (int i = 0; i < Map::kInputs; ++i)
          in[i] = *reinterpret_cast<const Pack<In, kWidth>*>(from[i] + first);
        Pack<Out, kWidth> out;
        for (int k = 0; k < kWidth; ++k) {
          float values[Map::kInputs];
          for (int i = 0; i < Map::kInputs; ++i) values[i] = widened(in[i].at[k]);
          out.at[k] = narrowed<Out>(own(values, first + k));
        }
        *reinterpret_cast<Pack<Out, kWidth>*>(to + first) = out;
        return;
      }
      for (int64_t k = first; k < first + kWidth && k < count; ++k) {
        float values[Map::kInputs];
        for (int i = 0; i < Map::kInputs; ++i) values[i] = widened(from[i][k]);
        to[k] = narrowed<Out>(own(values, k));
      }
    });
  }
};

/// Launches a MapKernel; `inputs` are of type In and `to` of Out, all with the same number of elements.
template <class In, class Out = In, class Map>
void launch_map(const Tensor (&inputs)[Map::kInputs], const Tensor& to, const Map& map) {
  MapKernel<In, Out, Map> kernel{{}, elements_to<Out>(to), to.elements(), is_pack_aligned(to.raw()), map};
  for (int i = 0; i < Map::kInputs; ++i) {
    kernel.from[i] = elements_of<In>(inputs[i]);
    kernel.in_packs = kernel.in_packs && is_pack_aligned(inputs[i].raw());
  }
  launch(kernel, blocks_for(kernel.count, int64_t{kernel.kThreads} * kernel.kWidth));
}

struct Same {
  static constexpr int kInputs = 1;
  DLPIPE_DEVICE float operator()(const float (&in)[1], int64_t) const { return in[0]; }
};
struct Times {
  static constexpr int kInputs = 1;
  float factor;
  DLPIPE_DEVICE float operator()(const float (&in)[1], int64_t) const { return in[0] * factor; }
};

template <class F>
struct ForwardMap {
  static constexpr int kInputs = 1;
  typename F::Attrs attrs;
  DLPIPE_DEVICE float operator()(const float (&in)[1], int64_t) const {
    return F::template forward<float>(in[0], attrs);
  }
};

/// Inputs: the gradient, and the tensor that the formula saves.
template <class F>
struct BackwardMap {
  static constexpr int kInputs = 2;
  typename F::Attrs attrs;
  DLPIPE_DEVICE float operator()(const float (&in)[2], int64_t) const {
    return F::template backward<float>(in[0], in[1], attrs);
  }
};

template <UnaryFormula F>
void unary_forward(const ForwardArgs& args) {
  stored(args.inputs[0].dtype(), [&](auto type) {
    launch_map<decltype(type)>({args.inputs[0]}, args.outputs[0],
                               ForwardMap<F>{args.attrs.as<typename F::Attrs>()});
  });
}

template <UnaryFormula F>
void unary_backward(const BackwardArgs& args) {
  const Tensor& grad = args.grad_outputs[0];
  const Tensor& saved = F::kSaved == Saved::kInput    ? args.inputs[0]
                        : F::kSaved == Saved::kOutput ? args.outputs[0]
                                                      : grad;
  stored(grad.dtype(), [&](auto type) {
    launch_map<decltype(type)>({grad, saved}, args.grad_inputs[0],
                               BackwardMap<F>{args.attrs.as<typename F::Attrs>()});
  });
}

template <UnaryFormula F>
constexpr Kernels unary_kernels() {
  return {unary_forward<F>, unary_backward<F>, supports_stored};
}

// Formulas with two inputs, with broadcasting.

/// The axes of `shape`, with the strides of the operands that are broadcast to it.
template <int kOperands>
Axes<kOperands> stretched_to(const Shape& shape, const Tensor (&operands)[kOperands]) {
  Axes<kOperands> axes;
  each_stretched(shape, operands,
                 [&](int axis, const int64_t(&strides)[kOperands]) { axes.add(shape[axis], strides); });
  return axes;
}

/// to[i] = map(the elements of the broadcast operands at i). `Map` is as in MapKernel.
template <class In, class Out, class Map>
struct StretchedKernel {
  static constexpr const char* kName = "stretched map";
  static constexpr int kThreads = 256;
  static constexpr int kWidth = kMapWidth<In, Out>;
  using Shared = NoShared;
  const In* from[Map::kInputs];
  Out* to;
  int64_t elements;
  Axes<Map::kInputs> axes;
  bool in_packs;  // the innermost axis is whole packs of kWidth, and all pointers are aligned to them
  Map map;

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, Shared&) const {
    block.each([&](int thread) {
      const int64_t first = (block.index() * kThreads + thread) * (in_packs ? kWidth : 1);
      if (first >= elements) return;
      int64_t at[Map::kInputs];
      axes.offsets(first, at);
      float values[Map::kInputs];
      if (!in_packs) {
        for (int i = 0; i < Map::kInputs; ++i) values[i] = widened(from[i][at[i]]);
        to[first] = narrowed<Out>(map(values, first));
        return;
      }
      Pack<In, kWidth> in[Map::kInputs];
      for (int i = 0; i < Map::kInputs; ++i) {
        if (axes.stride[i][0] == 1) {
          in[i] = *reinterpret_cast<const Pack<In, kWidth>*>(from[i] + at[i]);
        } else {  // broadcast: the same element for all
          for (int k = 0; k < kWidth; ++k) in[i].at[k] = from[i][at[i]];
        }
      }
      Pack<Out, kWidth> out;
      for (int k = 0; k < kWidth; ++k) {
        for (int i = 0; i < Map::kInputs; ++i) values[i] = widened(in[i].at[k]);
        out.at[k] = narrowed<Out>(map(values, first + k));
      }
      *reinterpret_cast<Pack<Out, kWidth>*>(to + first) = out;
    });
  }
};

/// Launches the kernel; `to` has as many elements as `shape`.
template <class In, class Out, class Map>
void launch_stretched(const Shape& shape, const Tensor (&operands)[Map::kInputs], const Tensor& to,
                      const Map& map) {
  StretchedKernel<In, Out, Map> kernel{
      {}, elements_to<Out>(to), to.elements(), stretched_to(shape, operands), is_pack_aligned(to.raw()), map};
  kernel.in_packs = kernel.in_packs && kernel.axes.count > 0 && kernel.axes.size[0] % kernel.kWidth == 0;
  for (int i = 0; i < Map::kInputs; ++i) {
    kernel.from[i] = elements_of<In>(operands[i]);
    kernel.in_packs = kernel.in_packs && is_pack_aligned(operands[i].raw());
  }
  launch(kernel,
         blocks_for(kernel.elements, int64_t{kernel.kThreads} * (kernel.in_packs ? kernel.kWidth : 1)));
}

template <class F>
struct BinaryMap {
  static constexpr int kInputs = 2;
  DLPIPE_DEVICE float operator()(const float (&in)[2], int64_t) const {
    return F::template forward<float>(in[0], in[1]);
  }
};

/// Inputs: the gradient, a and b.
template <class F, int kOperand>
struct BinaryGradientMap {
  static constexpr int kInputs = 3;
  DLPIPE_DEVICE float operator()(const float (&in)[3], int64_t) const {
    if constexpr (kOperand == 0) return F::template grad_a<float>(in[0], in[1], in[2]);
    return F::template grad_b<float>(in[0], in[1], in[2]);
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
    launch_stretched<T, T>(to.shape(), {a, b}, to, BinaryMap<F>());
  });
}

/// The axes of `shape` along which an operand of shape `own` was broadcast.
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
  const bool is_sum = grad_in.elements() != grad.elements();
  stored(grad.dtype(), [&](auto type) {
    using T = decltype(type);
    if constexpr (!F::kSaves) {  // the formula is linear: the gradient times a factor
      const float factor =
          kOperand == 0 ? F::template grad_a<float>(1, 0, 0) : F::template grad_b<float>(1, 0, 0);
      if (!is_sum) return launch_map<T>({grad}, grad_in, Times{factor});
      sum_axes<T, T>(grad, stretched, factor, grad_in);
    } else {
      const Tensor& a = args.inputs[0];
      const Tensor& b = args.inputs[1];
      const BinaryGradientMap<F, kOperand> map;
      if (a.shape() == b.shape()) return launch_map<T>({grad, a, b}, grad_in, map);
      if (!is_sum) return launch_stretched<T, T>(grad.shape(), {grad, a, b}, grad_in, map);
      sum_mapped<T, T>(grad.shape(), {grad, a, b}, stretched, map, grad_in);
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

template <class F>
constexpr Kernels formula_kernels() {
  if constexpr (BinaryFormula<F>) {
    return binary_kernels<F>();
  } else {
    return unary_kernels<F>();
  }
}

}  // namespace DLPIPE_GRID_NAMESPACE
}  // namespace dlpipe::engine::cuda
