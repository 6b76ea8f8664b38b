#include "dlpipe/engine/ops/layer_norm.h"

#include "dlpipe/engine/cpu/elementwise.h"
#include "dlpipe/engine/cpu/reduce.h"
#include "dlpipe/engine/cpu/rows.h"

namespace dlpipe::engine {

namespace {

void forward(const ForwardArgs& args) {
  const int64_t channels = args.inputs[0].size(-1);
  const int64_t rows = args.inputs[0].elements() / channels;
  const auto epsilon = static_cast<float>(args.attrs.as<LayerNormAttrs>().epsilon);
  const float* x = args.inputs[0].data<float>();
  const float* gamma = args.inputs[1].data<float>();
  const float* beta = args.inputs[2].data<float>();
  float* y = args.outputs[0].data<float>();
  float* means = args.outputs[1].data<float>();
  float* inverses = args.outputs[2].data<float>();
  parallel_ranges(rows, cpu::rows_per_slice(channels), [&](int64_t begin, int64_t end) {
    cpu::on_best_isa([=]() DLPIPE_INLINE {
      for (int64_t row = begin; row < end; ++row) {
        const float* __restrict from = x + row * channels;
        float* __restrict to = y + row * channels;
        const auto count = static_cast<float>(channels);
        const float mean =
            cpu::sum_terms(channels, [from](int64_t c) DLPIPE_INLINE { return from[c]; }) / count;
        const float variance =
            cpu::sum_terms(channels, [from, mean](int64_t c)
                                         DLPIPE_INLINE { return (from[c] - mean) * (from[c] - mean); }) /
            count;
        const float inverse = 1.0f / vector_math::sqrt(variance + epsilon);
        for (int64_t c = 0; c < channels; ++c) to[c] = (from[c] - mean) * inverse * gamma[c] + beta[c];
        means[row] = mean;
        inverses[row] = inverse;
      }
    });
  });
}

// With n = (x - mean) / std and g = dy gamma: dx = (g - mean(g) - n mean(g n)) / std.
void grad_of_x(const BackwardArgs& args, int64_t rows, int64_t channels) {
  const float* x = args.inputs[0].data<float>();
  const float* gamma = args.inputs[1].data<float>();
  const float* means = args.outputs[1].data<float>();
  const float* inverses = args.outputs[2].data<float>();
  const float* grad_y = args.grad_outputs[0].data<float>();
  float* grad_x = args.grad_inputs[0].data<float>();
  parallel_ranges(rows, cpu::rows_per_slice(channels), [&](int64_t begin, int64_t end) {
    cpu::on_best_isa([=]() DLPIPE_INLINE {
      for (int64_t row = begin; row < end; ++row) {
        const float* __restrict from = x + row * channels;
        const float* __restrict g = grad_y + row * channels;
        float* __restrict to = grad_x + row * channels;
        const float mean = means[row];
        const float inverse = inverses[row];
        const auto count = static_cast<float>(channels);
        const float mean_g =
            cpu::sum_terms(channels, [=](int64_t c) DLPIPE_INLINE { return g[c] * gamma[c]; }) / count;
        const float mean_gn = cpu::sum_terms(channels,
                                             [=](int64_t c) DLPIPE_INLINE {
                                               return g[c] * gamma[c] * ((from[c] - mean) * inverse);
                                             }) /
                              count;
        for (int64_t c = 0; c < channels; ++c) {
          to[c] = (g[c] * gamma[c] - mean_g - (from[c] - mean) * inverse * mean_gn) * inverse;
        }
      }
    });
  });
}

void backward(const BackwardArgs& args) {
  const int64_t channels = args.inputs[0].size(-1);
  const int64_t rows = args.inputs[0].elements() / channels;
  if (args.grad_inputs[0].defined()) grad_of_x(args, rows, channels);
  const uint32_t all_but_last = bit(args.inputs[0].rank() - 1) - 1;
  if (args.grad_inputs[2].defined())
    cpu::reduce_sum(args.grad_outputs[0], all_but_last, 1.0, args.grad_inputs[2]);
  if (!args.grad_inputs[1].defined()) return;
  const Tensor products = Tensor::empty({rows, channels});
  const float* x = args.inputs[0].data<float>();
  const float* means = args.outputs[1].data<float>();
  const float* inverses = args.outputs[2].data<float>();
  const float* grad = args.grad_outputs[0].data<float>();
  float* to = products.data<float>();
  parallel_ranges(rows, cpu::rows_per_slice(channels), [&](int64_t begin, int64_t end) {
    cpu::on_best_isa([=]() DLPIPE_INLINE {
      for (int64_t row = begin; row < end; ++row) {
        const float mean = means[row];
        const float inverse = inverses[row];
        for (int64_t i = row * channels; i < (row + 1) * channels; ++i)
          to[i] = grad[i] * ((x[i] - mean) * inverse);
      }
    });
  });
  cpu::reduce_sum(products, bit(0), 1.0, args.grad_inputs[1]);
}

}  // namespace

extern const Kernels layer_norm_cpu;
const Kernels layer_norm_cpu = {
    .forward = forward,
    .backward = backward,
    .supports = [](std::span<const TensorSpec> inputs,
                   const Attrs&) { return inputs[0].dtype == DType::kF32; },
};

}  // namespace dlpipe::engine
