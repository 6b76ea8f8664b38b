#include "dlpipe/engine/cpu/loops/elementwise.h"
#include "dlpipe/engine/cpu/loops/rows.h"
#include "dlpipe/engine/ops/axis_split.h"
#include "dlpipe/engine/ops/softmax.h"

namespace dlpipe::engine {

namespace {

void forward(const ForwardArgs& args) {
  const AxisSplit s(args.inputs[0].shape(), args.attrs.as<SoftmaxAttrs>().axis);
  const float* x = args.inputs[0].data<float>();
  float* y = args.outputs[0].data<float>();
  parallel_ranges(s.outer, cpu::rows_per_slice(s.count), [&](int64_t begin, int64_t end) {
    cpu::on_best_isa([=]() DLPIPE_INLINE {
      for (int64_t row = begin; row < end; ++row) {
        const float* __restrict from = x + row * s.count;
        float* __restrict to = y + row * s.count;
        const float largest = cpu::largest_of(from, s.count);
        const float sum = cpu::sum_terms(s.count, [from, largest](int64_t i) DLPIPE_INLINE {
          return vector_math::exp(from[i] - largest);
        });
        const float log_sum = vector_math::log(sum);
        for (int64_t i = 0; i < s.count; ++i) to[i] = from[i] - largest - log_sum;
      }
    });
  });
}

// dx = dy - e^y sum dy
void backward(const BackwardArgs& args) {
  const AxisSplit s(args.grad_inputs[0].shape(), args.attrs.as<SoftmaxAttrs>().axis);
  const float* y = args.outputs[0].data<float>();
  const float* grad_y = args.grad_outputs[0].data<float>();
  float* grad_x = args.grad_inputs[0].data<float>();
  parallel_ranges(s.outer, cpu::rows_per_slice(s.count), [&](int64_t begin, int64_t end) {
    cpu::on_best_isa([=]() DLPIPE_INLINE {
      for (int64_t row = begin; row < end; ++row) {
        const float* __restrict log_p = y + row * s.count;
        const float* __restrict g = grad_y + row * s.count;
        float* __restrict to = grad_x + row * s.count;
        const float sum = cpu::sum_terms(s.count, [g](int64_t i) DLPIPE_INLINE { return g[i]; });
        for (int64_t i = 0; i < s.count; ++i) to[i] = g[i] - vector_math::exp(log_p[i]) * sum;
      }
    });
  });
}

}  // namespace

extern const Kernels log_softmax_cpu;
const Kernels log_softmax_cpu = {
    .forward = forward,
    .backward = backward,
    // The last axis, where rows lie together; others are the reference's.
    .supports =
        [](std::span<const TensorSpec> inputs, const Attrs& attrs) {
          return inputs[0].dtype == DType::kF32 &&
                 attrs.as<SoftmaxAttrs>().axis == inputs[0].shape.rank() - 1;
        },
};

}  // namespace dlpipe::engine
