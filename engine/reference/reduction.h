// The plain loops of sum and mean.
#pragma once

#include "dlpipe/engine/ops/reduction.h"
#include "dlpipe/engine/reference/elementwise.h"

namespace dlpipe::engine::reference {

inline void reduce(const ForwardArgs& args, bool mean) {
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

inline void expand(const BackwardArgs& args, bool mean) {
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
