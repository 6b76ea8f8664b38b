// softmax, log_softmax, cross_entropy and mse on the CPU.
#include "engine/ops/losses.h"

#include <concepts>

#include "engine/cpu/loops/elementwise.h"
#include "engine/cpu/loops/rows.h"
#include "engine/ops/shape_ops.h"

namespace dlpipe::engine::cpu {

// softmax and log_softmax along the last axis. They differ in their Rule, which has two static functions of
// a row, both DLPIPE_INLINE.

template <class Rule>
concept SoftmaxLike = requires(const float* from, float* to, int64_t count, float largest) {
  { Rule::values(from, to, count, largest) } -> std::same_as<void>;  // x, y
  { Rule::gradients(from, from, to, count) } -> std::same_as<void>;  // y, grad_y, grad_x
};

template <SoftmaxLike Rule>
void softmax_forward(const ForwardArgs& args) {
  const AxisSplit s(args.inputs[0].shape(), args.attrs.as<SoftmaxAttrs>().axis);
  const float* x = args.inputs[0].data<float>();
  float* y = args.outputs[0].data<float>();
  parallel_ranges(s.outer, rows_per_slice(s.count), [&](int64_t begin, int64_t end) {
    on_best_isa([=]() DLPIPE_INLINE {
      for (int64_t row = begin; row < end; ++row) {
        const float* from = x + row * s.count;
        Rule::values(from, y + row * s.count, s.count, largest_of(from, s.count));
      }
    });
  });
}

template <SoftmaxLike Rule>
void softmax_backward(const BackwardArgs& args) {
  const AxisSplit s(args.grad_inputs[0].shape(), args.attrs.as<SoftmaxAttrs>().axis);
  const float* y = args.outputs[0].data<float>();
  const float* grad_y = args.grad_outputs[0].data<float>();
  float* grad_x = args.grad_inputs[0].data<float>();
  parallel_ranges(s.outer, rows_per_slice(s.count), [&](int64_t begin, int64_t end) {
    on_best_isa([=]() DLPIPE_INLINE {
      for (int64_t row = begin; row < end; ++row) {
        const int64_t first = row * s.count;
        Rule::gradients(y + first, grad_y + first, grad_x + first, s.count);
      }
    });
  });
}

template <SoftmaxLike Rule>
constexpr Kernels softmax_kernels() {
  Kernels kernels;
  kernels.forward = softmax_forward<Rule>;
  kernels.backward = softmax_backward<Rule>;
  // Supports the last axis only, whose rows are contiguous; the reference computes other axes.
  kernels.supports = [](std::span<const TensorSpec> inputs, const Attrs& attrs) {
    return inputs[0].dtype == DType::kF32 && attrs.as<SoftmaxAttrs>().axis == inputs[0].shape.rank() - 1;
  };
  return kernels;
}

}  // namespace dlpipe::engine::cpu

namespace dlpipe::engine {

namespace {

struct SoftmaxRule {
  DLPIPE_INLINE static void values(const float* __restrict x, float* __restrict y, int64_t count,
                                   float largest) {
    for (int64_t i = 0; i < count; ++i) y[i] = vector_math::exp(x[i] - largest);
    const float sum = cpu::sum_terms(count, [y](int64_t i) DLPIPE_INLINE { return y[i]; });
    const float inverse = 1.0f / sum;
    for (int64_t i = 0; i < count; ++i) y[i] *= inverse;
  }
  // dx = y (dy - sum y dy)
  DLPIPE_INLINE static void gradients(const float* __restrict y, const float* __restrict grad_y,
                                      float* __restrict grad_x, int64_t count) {
    const float dot =
        cpu::sum_terms(count, [y, grad_y](int64_t i) DLPIPE_INLINE { return y[i] * grad_y[i]; });
    for (int64_t i = 0; i < count; ++i) grad_x[i] = y[i] * (grad_y[i] - dot);
  }
};

}  // namespace

extern const Kernels softmax_cpu;
constinit const Kernels softmax_cpu = cpu::softmax_kernels<SoftmaxRule>();

namespace {

struct LogSoftmaxRule {
  DLPIPE_INLINE static void values(const float* __restrict x, float* __restrict y, int64_t count,
                                   float largest) {
    const float sum = cpu::sum_terms(
        count, [x, largest](int64_t i) DLPIPE_INLINE { return vector_math::exp(x[i] - largest); });
    const float log_sum = vector_math::log(sum);
    for (int64_t i = 0; i < count; ++i) y[i] = x[i] - largest - log_sum;
  }
  // dx = dy - e^y sum dy
  DLPIPE_INLINE static void gradients(const float* __restrict y, const float* __restrict grad_y,
                                      float* __restrict grad_x, int64_t count) {
    const float sum = cpu::sum_terms(count, [grad_y](int64_t i) DLPIPE_INLINE { return grad_y[i]; });
    for (int64_t i = 0; i < count; ++i) grad_x[i] = grad_y[i] - vector_math::exp(y[i]) * sum;
  }
};

}  // namespace

extern const Kernels log_softmax_cpu;
constinit const Kernels log_softmax_cpu = cpu::softmax_kernels<LogSoftmaxRule>();

namespace {

Tensor weight_of(std::span<const Tensor> inputs) {
  return inputs.size() > 2 ? inputs[2] : Tensor();
}

/// A row's contributions to the loss, without its weight.
struct RowTerms {
  float own = 0;  // log p of the label
  float all = 0;  // the sum of log p over all classes; 0 without label smoothing
};

void cross_entropy_forward(const ForwardArgs& args) {
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
void cross_entropy_backward(const BackwardArgs& args) {
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
    .forward = cross_entropy_forward,
    .backward = cross_entropy_backward,
    .supports = cpu::supports_first_f32_bf16,
};

namespace {

constexpr int64_t kChunk = 16384;  // squares summed in f32; the chunks' sums are added in double

void mse_forward(const ForwardArgs& args) {
  const int64_t count = args.inputs[0].elements();
  const float* x = args.inputs[0].data<float>();
  const float* target = args.inputs[1].data<float>();
  std::vector<float> partial(static_cast<size_t>((count + kChunk - 1) / kChunk));
  parallel_ranges(count, kChunk, [&](int64_t begin, int64_t end) {
    cpu::on_best_isa([=, out = &partial[static_cast<size_t>(begin / kChunk)]]() DLPIPE_INLINE {
      *out = cpu::sum_terms(end - begin, [=](int64_t i) DLPIPE_INLINE {
        const float difference = x[begin + i] - target[begin + i];
        return difference * difference;
      });
    });
  });
  double sum = 0;
  for (float part : partial) sum += part;
  args.outputs[0].data<float>()[0] = static_cast<float>(sum / static_cast<double>(count));
}

void mse_backward(const BackwardArgs& args) {
  const int64_t count = args.inputs[0].elements();
  const auto factor =
      static_cast<float>(2.0 * args.grad_outputs[0].data<float>()[0] / static_cast<double>(count));
  for (size_t side = 0; side < 2; ++side) {
    if (!args.grad_inputs[side].defined()) continue;
    float* to = args.grad_inputs[side].data<float>();
    const float* x = args.inputs[side].data<float>();
    const float* other = args.inputs[1 - side].data<float>();
    parallel_ranges(count, cpu::kElementwiseGrain, [&](int64_t begin, int64_t end) {
      cpu::on_best_isa([=]() DLPIPE_INLINE {
        for (int64_t i = begin; i < end; ++i) to[i] = factor * (x[i] - other[i]);
      });
    });
  }
}

}  // namespace

extern const Kernels mse_cpu;
const Kernels mse_cpu = {
    .forward = mse_forward,
    .backward = mse_backward,
    .supports = [](std::span<const TensorSpec> inputs,
                   const Attrs&) { return inputs[0].dtype == DType::kF32; },
};

}  // namespace dlpipe::engine
