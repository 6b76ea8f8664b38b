#include "engine/ops/reductions.h"

#include <algorithm>
#include <cmath>

#include "engine/ops/shape_ops.h"
#include "engine/reference/formula.h"

namespace dlpipe::engine::reference {

static void reduce(const ForwardArgs& args, bool mean) {
  const Tensor& x = args.inputs[0];
  const uint32_t axes = args.attrs.as<ReductionAttrs>().axes;
  const Shape kept = kept_shape(x.shape(), axes);
  typed(x.dtype(), [&]<class T>(T) {
    std::vector<double> sums(static_cast<size_t>(kept.elements()));
    BroadcastIndex at(x.shape(), kept, kept);
    for (int64_t i = 0; i < x.elements(); ++i, at.next())
      sums[static_cast<size_t>(at.offset(0))] += x.data<T>()[i];
    const double count = mean ? reduction_count(x.shape(), axes) : 1.0;
    for (size_t i = 0; i < sums.size(); ++i) args.outputs[0].data<T>()[i] = static_cast<T>(sums[i] / count);
  });
}

static void expand(const BackwardArgs& args, bool mean) {
  const Tensor& grad_x = args.grad_inputs[0];
  const uint32_t axes = args.attrs.as<ReductionAttrs>().axes;
  const Shape kept = kept_shape(grad_x.shape(), axes);
  typed(grad_x.dtype(), [&]<class T>(T) {
    const T count = mean ? static_cast<T>(reduction_count(grad_x.shape(), axes)) : T(1);
    BroadcastIndex at(grad_x.shape(), kept, kept);
    for (int64_t i = 0; i < grad_x.elements(); ++i, at.next()) {
      grad_x.data<T>()[i] = args.grad_outputs[0].data<T>()[at.offset(0)] / count;
    }
  });
}

}  // namespace dlpipe::engine::reference

namespace dlpipe::engine {

extern const Kernels sum_reference;
const Kernels sum_reference = {
    .forward = [](const ForwardArgs& args) { reference::reduce(args, false); },
    .backward = [](const BackwardArgs& args) { reference::expand(args, false); },
};

extern const Kernels mean_reference;
const Kernels mean_reference = {
    .forward = [](const ForwardArgs& args) { reference::reduce(args, true); },
    .backward = [](const BackwardArgs& args) { reference::expand(args, true); },
};

namespace {

void max_forward(const ForwardArgs& args) {
  const Tensor& x = args.inputs[0];
  const AxisSplit s(x.shape(), args.attrs.as<MaxAttrs>().axis);
  reference::typed(x.dtype(), [&]<class T>(T) {
    for (int64_t row = 0; row < s.outer * s.inner; ++row) {
      const T* values = x.data<T>() + row / s.inner * s.count * s.inner + row % s.inner;
      int64_t best = 0;
      for (int64_t i = 1; i < s.count; ++i) {
        const T value = values[i * s.inner];
        const T former = values[best * s.inner];
        if (value > former || (std::isnan(value) && !std::isnan(former))) best = i;
      }
      args.outputs[0].data<T>()[row] = values[best * s.inner];
      args.outputs[1].data<int64_t>()[row] = best;
    }
  });
}

void max_backward(const BackwardArgs& args) {
  const Tensor& grad_x = args.grad_inputs[0];
  const AxisSplit s(grad_x.shape(), args.attrs.as<MaxAttrs>().axis);
  const int64_t* best = args.outputs[1].data<int64_t>();
  reference::typed(grad_x.dtype(), [&]<class T>(T) {
    std::fill_n(grad_x.data<T>(), grad_x.elements(), T(0));
    for (int64_t row = 0; row < s.outer * s.inner; ++row) {
      grad_x.data<T>()[(row / s.inner * s.count + best[row]) * s.inner + row % s.inner] =
          args.grad_outputs[0].data<T>()[row];
    }
  });
}

}  // namespace

extern const Kernels max_reference;
const Kernels max_reference = {.forward = max_forward, .backward = max_backward};

}  // namespace dlpipe::engine
