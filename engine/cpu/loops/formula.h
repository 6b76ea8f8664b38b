// The kernels of an elementwise op, made from its formula (ops/elementwise.h), as `dlpipe_register(op NAME ELEMENTWISE)`
// registers them on this backend. elementwise.h has the loops for one input. This file has those for two inputs, with
// broadcasting, and the sums over axes that their gradients need.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "dlpipe/tensor.h"
#include "engine/cpu/loops/elementwise.h"

namespace dlpipe::engine::cpu {

/// to[kept axes] = factor * sum of `from` over the axes with a bit in `reduced`. `from` is plain and
/// contiguous; `to` is f32 or bf16, with as many elements as the kept axes have.
void reduce_sum(const Tensor& from, uint32_t reduced, double factor, const Tensor& to);

/// The axes of `shape` along which a tensor of shape `narrow` was broadcast (NumPy's rule), as bits.
uint32_t stretched_axes(const Shape& shape, const Shape& narrow);

// Loops over two operands that are broadcast to one shape: outer rows, and an inner run along which each
// operand advances by one or stays.

class BroadcastPlan {
 public:
  BroadcastPlan(const Shape& shape, const Shape& a, const Shape& b);

  struct Row {
    int64_t to;  // first element of the output
    std::array<int64_t, 2> from;
    int64_t count;
  };
  /// Calls body(row) for every inner run, in parallel slices. Long runs are split. Slice borders depend only on the shapes.
  template <class Body>
  void for_each_row(const Body& body) const {
    const int64_t pieces = (inner_ + kElementwiseGrain - 1) / kElementwiseGrain;
    parallel_ranges(rows_ * pieces, std::max<int64_t>(1, kElementwiseGrain / inner_),
                    [&](int64_t begin, int64_t end) {
                      for (int64_t task = begin; task < end; ++task)
                        body(row(task / pieces, task % pieces * kElementwiseGrain));
                    });
  }
  /// Whether operand `k` moves along the inner run.
  bool moves(int k) const { return inner_moves_[static_cast<size_t>(k)]; }

 private:
  struct Axis {
    int64_t size;
    std::array<int64_t, 2> stride;
  };
  Row row(int64_t index, int64_t first) const;

  std::vector<Axis> outer_;
  int64_t rows_ = 1;
  int64_t inner_ = 1;
  std::array<bool, 2> inner_moves_{};
};

/// Calls body(std::bool_constant<a moves>, std::bool_constant<b moves>), so that each case has its own loop.
template <class Body>
void with_moves(const BroadcastPlan& plan, const Body& body) {
  if (plan.moves(0)) {
    if (plan.moves(1)) return body(std::true_type{}, std::true_type{});
    return body(std::true_type{}, std::false_type{});
  }
  if (plan.moves(1)) return body(std::false_type{}, std::true_type{});
  body(std::false_type{}, std::false_type{});
}

/// to = formula(a, b) over `shape`, with a and b broadcast to it.
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

/// The gradient of one operand of a formula that reads a and b: computed over the whole shape, then summed over the axes
/// along which the operand was broadcast.
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
    // The formula is linear: each gradient is the incoming one times a factor.
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

template <class F>
constexpr Kernels formula_kernels() {
  if constexpr (BinaryFormula<F>) {
    return binary_kernels<F>();
  } else {
    return unary_kernels<F>();
  }
}

}  // namespace dlpipe::engine::cpu
