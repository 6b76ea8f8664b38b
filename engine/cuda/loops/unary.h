// Elementwise formulas of one input (ops/elementwise.h) on CUDA: one thread sixteen bytes.
#pragma once

#include "dlpipe/engine/cuda/grid/elements.h"
#include "dlpipe/engine/ops/elementwise.h"

namespace dlpipe::engine::cuda {
inline namespace DLPIPE_GRID_NAMESPACE {

/// to[i] = map(i's loaded inputs): `Map` is a struct with
///   static constexpr int kInputs; float operator()(const float (&in)[kInputs], int64_t i).
/// A thread has a copy, and its elements come in order, the first at a multiple of four.
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

/// Launches one; `inputs` are of In and `to` of Out, all with as many elements.
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

/// Inputs: the gradient and what the formula saves.
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

}  // namespace DLPIPE_GRID_NAMESPACE
}  // namespace dlpipe::engine::cuda
