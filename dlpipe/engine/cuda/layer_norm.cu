#include "dlpipe/engine/ops/layer_norm.h"

#include "dlpipe/engine/cuda/axis_sums.h"
#include "dlpipe/engine/ops/vector_math.h"

namespace dlpipe::engine {
namespace {

/// One block a row.
struct LayerNormRows {
  static constexpr const char* kName = "layer_norm";
  static constexpr int kThreads = cuda::kRowThreads;
  using Shared = cuda::ReduceSpace<float, kThreads>;
  const float* x;
  const float* gamma;
  const float* beta;
  float* y;
  float* means;
  float* inverses;
  int64_t channels;
  float epsilon;

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, Shared& shared) const {
    const float* from = x + block.index() * channels;
    float* to = y + block.index() * channels;
    const auto count = static_cast<float>(channels);
    const float mean =
        cuda::reduce_row(block, shared, channels, 0.0f, cuda::Add(), [&](int64_t c) { return from[c]; }) /
        count;
    const float variance = cuda::reduce_row(block, shared, channels, 0.0f, cuda::Add(),
                                            [&](int64_t c) { return (from[c] - mean) * (from[c] - mean); }) /
                           count;
    const float inverse = 1.0f / vector_math::sqrt(variance + epsilon);
    block.each([&](int thread) {
      for (int64_t c = thread; c < channels; c += kThreads)
        to[c] = (from[c] - mean) * inverse * gamma[c] + beta[c];
      if (thread == 0) {
        means[block.index()] = mean;
        inverses[block.index()] = inverse;
      }
    });
  }
};

/// With n = (x - mean) / std and g = dy gamma: dx = (g - mean(g) - n mean(g n)) / std. One block a row.
struct LayerNormGradientRows {
  static constexpr const char* kName = "layer_norm gradient";
  static constexpr int kThreads = cuda::kRowThreads;
  using Shared = cuda::ReduceSpace<float, kThreads>;
  const float* x;
  const float* gamma;
  const float* means;
  const float* inverses;
  const float* grad_y;
  float* grad_x;
  int64_t channels;

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, Shared& shared) const {
    const float* from = x + block.index() * channels;
    const float* g = grad_y + block.index() * channels;
    float* to = grad_x + block.index() * channels;
    const auto count = static_cast<float>(channels);
    const float mean = means[block.index()];
    const float inverse = inverses[block.index()];
    const float mean_g = cuda::reduce_row(block, shared, channels, 0.0f, cuda::Add(),
                                          [&](int64_t c) { return g[c] * gamma[c]; }) /
                         count;
    const float mean_gn =
        cuda::reduce_row(block, shared, channels, 0.0f, cuda::Add(),
                         [&](int64_t c) { return g[c] * gamma[c] * ((from[c] - mean) * inverse); }) /
        count;
    block.each([&](int thread) {
      for (int64_t c = thread; c < channels; c += kThreads)
        to[c] = (g[c] * gamma[c] - mean_g - (from[c] - mean) * inverse * mean_gn) * inverse;
    });
  }
};

/// dy n, whose columns' sums are gamma's gradient.
struct LayerNormProducts {
  static constexpr const char* kName = "layer_norm products";
  static constexpr int kThreads = 256;
  using Shared = cuda::NoShared;
  const float* x;
  const float* means;
  const float* inverses;
  const float* grad_y;
  float* to;
  int64_t elements;
  int64_t channels;

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, Shared&) const {
    block.each([&](int thread) {
      const int64_t i = block.index() * kThreads + thread;
      if (i < elements) to[i] = grad_y[i] * ((x[i] - means[i / channels]) * inverses[i / channels]);
    });
  }
};

void forward(const ForwardArgs& args) {
  const int64_t channels = args.inputs[0].size(-1);
  const auto epsilon = static_cast<float>(args.attrs.as<LayerNormAttrs>().epsilon);
  cuda::launch(LayerNormRows{args.inputs[0].data<float>(), args.inputs[1].data<float>(),
                             args.inputs[2].data<float>(), args.outputs[0].data<float>(),
                             args.outputs[1].data<float>(), args.outputs[2].data<float>(), channels, epsilon},
               args.inputs[0].elements() / channels);
}

void backward(const BackwardArgs& args) {
  const Tensor& x = args.inputs[0];
  const int64_t channels = x.size(-1);
  const int64_t rows = x.elements() / channels;
  const float* means = args.outputs[1].data<float>();
  const float* inverses = args.outputs[2].data<float>();
  const float* grad = args.grad_outputs[0].data<float>();
  if (args.grad_inputs[0].defined()) {
    cuda::launch(LayerNormGradientRows{x.data<float>(), args.inputs[1].data<float>(), means, inverses, grad,
                                       args.grad_inputs[0].data<float>(), channels},
                 rows);
  }
  if (args.grad_inputs[1].defined()) {
    const Tensor products = Tensor::empty({{rows, channels}, DType::kF32}, x.device());
    cuda::launch(LayerNormProducts{x.data<float>(), means, inverses, grad, products.data<float>(),
                                   x.elements(), channels},
                 cuda::blocks_for(x.elements(), LayerNormProducts::kThreads));
    cuda::sum_columns(products.data<float>(), rows, channels, 1.0f, args.grad_inputs[1].data<float>(),
                      x.device());
  }
  if (args.grad_inputs[2].defined())
    cuda::sum_columns(grad, rows, channels, 1.0f, args.grad_inputs[2].data<float>(), x.device());
}

bool supports(std::span<const TensorSpec> inputs, const Attrs&) {
  return inputs[0].dtype == DType::kF32;
}

}  // namespace

DLPIPE_CUDA_KERNELS(layer_norm) = {forward, backward, supports};

}  // namespace dlpipe::engine
