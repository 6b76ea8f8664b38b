#include "dlpipe/engine/ops/cross_entropy.h"

#include "dlpipe/engine/cpu/loops/rows.h"
#include "dlpipe/engine/cpu/loops/stored_rows.h"
#include "dlpipe/engine/cpu/loops/supports.h"

namespace dlpipe::engine {

namespace {

Tensor weight_of(std::span<const Tensor> inputs) {
  return inputs.size() > 2 ? inputs[2] : Tensor();
}

/// What a row adds to the loss, but for its weight.
struct RowTerms {
  float own = 0;  // log p of the label
  float all = 0;  // of every class, summed; 0 where labels aren't smoothed
};

void forward(const ForwardArgs& args) {
  const int64_t classes = args.inputs[0].size(1);
  const double smoothing = args.attrs.as<CrossEntropyAttrs>().label_smoothing;
  const CrossEntropyTargets targets(args.inputs[1], weight_of(args.inputs), classes);
  const cpu::StoredRows logits(args.inputs[0]);
  float* kept = args.outputs[1].data<float>();
  std::vector<RowTerms> terms(static_cast<size_t>(targets.rows));
  parallel_ranges(targets.rows, cpu::rows_per_slice(classes), [&](int64_t begin, int64_t end) {
    float* const scratch = cpu::scratch_rows(1, classes);
    for (int64_t row = begin; row < end; ++row) {
      RowTerms* const out = &terms[static_cast<size_t>(row)];
      const int64_t label = targets.weight(row) == 0 ? 0 : targets.label[row];
      cpu::on_best_isa([=]() DLPIPE_INLINE {
        const float* const x = logits.read(row * classes, classes, scratch);
        const float largest = cpu::largest_of(x, classes);
        const float sum = cpu::sum_terms(
            classes, [x, largest](int64_t k) DLPIPE_INLINE { return vector_math::exp(x[k] - largest); });
        const float log_sum = vector_math::log(sum);
        kept[2 * row] = largest;
        kept[2 * row + 1] = log_sum;
        out->own = x[label] - largest - log_sum;
        if (smoothing != 0)
          out->all =
              cpu::sum_terms(classes, [=](int64_t k) DLPIPE_INLINE { return x[k] - largest - log_sum; });
      });
    }
  });
  double loss = 0;
  for (int64_t row = 0; row < targets.rows; ++row) {
    if (targets.weight(row) == 0) continue;
    const RowTerms& of_row = terms[static_cast<size_t>(row)];
    loss -= targets.weight(row) *
            ((1 - smoothing) * of_row.own + smoothing / static_cast<double>(classes) * of_row.all);
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
  const cpu::StoredRows logits(args.inputs[0]);
  const cpu::StoredRows gradients(args.grad_inputs[0]);
  const float* kept = args.outputs[1].data<float>();
  const auto everywhere = static_cast<float>(smoothing / static_cast<double>(classes));
  const auto at_label = static_cast<float>(1 - smoothing);
  parallel_ranges(targets.rows, cpu::rows_per_slice(classes), [&](int64_t begin, int64_t end) {
    float* const scratch = cpu::scratch_rows(2, classes);
    for (int64_t row = begin; row < end; ++row) {
      const double weight = targets.weight(row);
      const auto factor = static_cast<float>(weight == 0 ? 0.0 : weight / targets.weight_sum * grad);
      const int64_t label = weight == 0 ? 0 : targets.label[row];
      cpu::on_best_isa([=]() DLPIPE_INLINE {
        float* const to = gradients.target(row * classes, scratch);
        if (weight == 0) {
          std::fill_n(to, classes, 0.0f);
        } else {
          const float* const x = logits.read(row * classes, classes, scratch + classes);
          const float largest = kept[2 * row];
          const float log_sum = kept[2 * row + 1];
          for (int64_t k = 0; k < classes; ++k)
            to[k] = factor * (vector_math::exp(x[k] - largest - log_sum) - everywhere);
          to[label] = factor * (vector_math::exp(x[label] - largest - log_sum) - everywhere - at_label);
        }
        gradients.write(row * classes, classes, to);
      });
    }
  });
}

}  // namespace

extern const Kernels cross_entropy_cpu;
const Kernels cross_entropy_cpu = {
    .forward = forward,
    .backward = backward,
    .supports = cpu::supports_first_f32_bf16,
};

}  // namespace dlpipe::engine
