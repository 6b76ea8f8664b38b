#include "dlpipe/engine/ops/cross_entropy.h"

#include "dlpipe/engine/cpu/elementwise.h"
#include "dlpipe/engine/cpu/rows.h"

namespace dlpipe::engine {

namespace {

Tensor weight_of(std::span<const Tensor> inputs) {
  return inputs.size() > 2 ? inputs[2] : Tensor();
}

void forward(const ForwardArgs& args) {
  const int64_t classes = args.inputs[0].size(1);
  const double smoothing = args.attrs.as<CrossEntropyAttrs>().label_smoothing;
  const CrossEntropyTargets targets(args.inputs[1], weight_of(args.inputs), classes);
  const float* logits = args.inputs[0].data<float>();
  float* log_ps = args.outputs[1].data<float>();
  std::vector<float> sums(static_cast<size_t>(targets.rows));  // of log p, a row
  parallel_ranges(targets.rows, cpu::rows_per_slice(classes), [&](int64_t begin, int64_t end) {
    cpu::on_best_isa([=, out = sums.data()]() DLPIPE_INLINE {
      for (int64_t row = begin; row < end; ++row) {
        const float* __restrict x = logits + row * classes;
        float* __restrict log_p = log_ps + row * classes;
        const float largest = cpu::largest_of(x, classes);
        const float sum = cpu::sum_terms(
            classes, [x, largest](int64_t k) DLPIPE_INLINE { return vector_math::exp(x[k] - largest); });
        const float log_sum = vector_math::log(sum);
        for (int64_t k = 0; k < classes; ++k) log_p[k] = x[k] - largest - log_sum;
        out[row] = cpu::sum_terms(classes, [log_p](int64_t k) DLPIPE_INLINE { return log_p[k]; });
      }
    });
  });
  double loss = 0;
  for (int64_t row = 0; row < targets.rows; ++row) {
    if (targets.weight(row) == 0) continue;
    loss -= targets.weight(row) * ((1 - smoothing) * log_ps[row * classes + targets.label[row]] +
                                   smoothing / static_cast<double>(classes) * sums[static_cast<size_t>(row)]);
  }
  args.outputs[0].data<float>()[0] =
      static_cast<float>(targets.weight_sum == 0 ? 0 : loss / targets.weight_sum);
}

// dx[n,k] = w_n / sum w (p[n,k] - (1-s) [k == label] - s/K)
void backward(const BackwardArgs& args) {
  const int64_t classes = args.grad_inputs[0].size(1);
  const double smoothing = args.attrs.as<CrossEntropyAttrs>().label_smoothing;
  const CrossEntropyTargets targets(args.inputs[1], weight_of(args.inputs), classes);
  const double grad = args.grad_outputs[0].data<float>()[0];
  const float* log_ps = args.outputs[1].data<float>();
  float* grad_x = args.grad_inputs[0].data<float>();
  const auto everywhere = static_cast<float>(smoothing / static_cast<double>(classes));
  parallel_ranges(targets.rows, cpu::rows_per_slice(classes), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      float* to = grad_x + row * classes;
      const float* log_p = log_ps + row * classes;
      const double weight = targets.weight(row);
      const auto factor = static_cast<float>(weight == 0 ? 0.0 : weight / targets.weight_sum * grad);
      if (weight == 0) {
        std::fill_n(to, classes, 0.0f);
        continue;
      }
      cpu::on_best_isa([=]() DLPIPE_INLINE {
        for (int64_t k = 0; k < classes; ++k) to[k] = factor * (vector_math::exp(log_p[k]) - everywhere);
      });
      const int64_t label = targets.label[row];
      to[label] = factor * (vector_math::exp(log_p[label]) - everywhere - static_cast<float>(1 - smoothing));
    }
  });
}

}  // namespace

extern const Kernels cross_entropy_cpu;
const Kernels cross_entropy_cpu = {
    .forward = forward,
    .backward = backward,
    .supports = [](std::span<const TensorSpec> inputs,
                   const Attrs&) { return inputs[0].dtype == DType::kF32; },
};

}  // namespace dlpipe::engine
