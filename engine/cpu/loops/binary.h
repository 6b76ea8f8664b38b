// The fast loops around a binary formula (ops/elementwise.h), with broadcasting.
#pragma once

#include "dlpipe/engine/cpu/loops/broadcast.h"
#include "dlpipe/engine/cpu/loops/elementwise.h"
#include "dlpipe/engine/cpu/loops/reduce.h"

namespace dlpipe::engine::cpu {

/// to = formula(a, b) over `shape`, a and b stretched to it.
template <class In, class Out, class Formula>
void broadcast_loop(const Shape& shape, const Shape& shape_a, const Shape& shape_b, const In* a, const In* b,
                    Out* to, Formula formula) {
  const BroadcastPlan plan(shape, shape_a, shape_b);
  with_moves(plan, [&](auto a_moves, auto b_moves) {
    plan.for_each_row([&](const BroadcastPlan::Row& row) {
      const In* x = a + row.from[0];
      const In* y = b + row.from[1];
      Out* out = to + row.to;
      const int64_t count = row.count;
      on_best_isa([=]() DLPIPE_INLINE {
        for (int64_t i = 0; i < count; ++i) {
          store_one(out + i,
                    formula(load_one(x + (a_moves ? i : 0)), load_one(y + (b_moves ? i : 0)), row.to + i));
        }
      });
    });
  });
}

template <class F>
void binary_forward(const ForwardArgs& args) {
  stored(args.outputs[0].dtype(), [&]<class T>(T*) {
    broadcast_loop(args.outputs[0].shape(), args.inputs[0].shape(), args.inputs[1].shape(),
                   static_cast<const T*>(args.inputs[0].raw()), static_cast<const T*>(args.inputs[1].raw()),
                   static_cast<T*>(args.outputs[0].raw()),
                   [](float a, float b, int64_t) DLPIPE_INLINE { return F::template forward<float>(a, b); });
  });
}

/// The gradient of one operand of a formula that reads a and b: over the whole shape, then summed over the
/// axes along which the operand was stretched.
template <class F, int kOperand>
void binary_grad(const BackwardArgs& args) {
  const Tensor& grad_in = args.grad_inputs[kOperand];
  if (!grad_in.defined()) return;
  const Tensor& grad_out = args.grad_outputs[0];
  const Shape& shape = grad_out.shape();
  const uint32_t stretched = stretched_axes(shape, grad_in.shape());
  stored(grad_out.dtype(), [&]<class T>(T*) {
    const T* grad = static_cast<const T*>(grad_out.raw());
    auto run = [&]<class Out>(Out* to) {
      broadcast_loop(shape, args.inputs[0].shape(), args.inputs[1].shape(),
                     static_cast<const T*>(args.inputs[0].raw()), static_cast<const T*>(args.inputs[1].raw()),
                     to, [grad](float a, float b, int64_t i) DLPIPE_INLINE {
                       if constexpr (kOperand == 0)
                         return F::template grad_a<float>(load_one(grad + i), a, b);
                       return F::template grad_b<float>(load_one(grad + i), a, b);
                     });
    };
    if (stretched == 0) return run(static_cast<T*>(grad_in.raw()));
    const Tensor wide = Tensor::empty(shape);
    run(wide.data<float>());
    reduce_sum(wide, stretched, 1.0, grad_in);
  });
}

template <class F>
void binary_backward(const BackwardArgs& args) {
  if constexpr (F::kSaves) {
    binary_grad<F, 0>(args);
    binary_grad<F, 1>(args);
  } else {
    // Linear: the gradient times a factor.
    const Tensor& grad = args.grad_outputs[0];
    for (size_t k = 0; k < 2; ++k) {
      const Tensor& grad_in = args.grad_inputs[k];
      if (!grad_in.defined()) continue;
      const double factor = k == 0 ? F::template grad_a<float>(1, 0, 0) : F::template grad_b<float>(1, 0, 0);
      reduce_sum(grad, stretched_axes(grad.shape(), grad_in.shape()), factor, grad_in);
    }
  }
}

template <class F>
constexpr Kernels binary_kernels() {
  return {binary_forward<F>, binary_backward<F>, supports_f32_bf16};
}

}  // namespace dlpipe::engine::cpu
