#include "dlpipe/engine/ops/cross_entropy.h"

#include "dlpipe/engine/cuda/loops/axis_sums.h"
#include "dlpipe/engine/ops/vector_math.h"

namespace dlpipe::engine {
namespace {

/// A row's share of the loss; a label that is no class makes it NaN, since a kernel can't throw.
template <class T>
struct CrossEntropyRows {
  static constexpr const char* kName = "cross_entropy";
  static constexpr int kThreads = cuda::kRowThreads;
  using Shared = cuda::ReduceSpace<float, kThreads>;
  const T* logits;
  const int64_t* labels;
  const float* weights;  // or null: all 1
  float* kept;           // of each row, for backward: its largest logit, log sum exp(logit - largest)
  float* losses;         // [rows], then the rows' weights
  int64_t rows;
  int64_t classes;
  float smoothing;

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, Shared& shared) const {
    const int64_t row = block.index();
    const T* x = logits + row * classes;
    const cuda::ExpSum e =
        cuda::reduce_exponentials(block, shared, classes, [&](int64_t i) { return cuda::widened(x[i]); });
    const float largest = e.largest;
    const float log_sum = vector_math::log(e.sum);
    float all = 0;  // without smoothing nobody wants it, and rows of a vocabulary don't stay in a cache
    if (smoothing != 0)
      all = cuda::reduce_row(block, shared, classes, 0.0f, cuda::Add(),
                             [&](int64_t i) { return cuda::widened(x[i]) - largest - log_sum; });
    block.each([&](int thread) {
      if (thread != 0) return;
      kept[2 * row] = largest;
      kept[2 * row + 1] = log_sum;
      const float weight = weights != nullptr ? weights[row] : 1.0f;
      const int64_t label = labels[row];
      const bool is_class = label >= 0 && label < classes;
      const float own = is_class ? cuda::widened(x[label]) - largest - log_sum : NAN;
      losses[row] = weight == 0
                        ? 0.0f
                        : -weight * ((1 - smoothing) * own + smoothing / static_cast<float>(classes) * all);
      losses[rows + row] = weight;
    });
  }
};

/// loss = sum of losses / sum of weights; both, the second first for backward.
struct CrossEntropyMean {
  static constexpr const char* kName = "cross_entropy mean";
  static constexpr int kThreads = cuda::kRowThreads;
  using Shared = cuda::ReduceSpace<float, kThreads>;
  const float* losses;
  float* loss;
  int64_t rows;

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, Shared& shared) const {
    const float sum =
        cuda::reduce_row(block, shared, rows, 0.0f, cuda::Add(), [&](int64_t i) { return losses[i]; });
    const float weight =
        cuda::reduce_row(block, shared, rows, 0.0f, cuda::Add(), [&](int64_t i) { return losses[rows + i]; });
    block.each([&](int thread) {
      if (thread == 0) loss[0] = weight == 0 ? 0.0f : sum / weight;
    });
  }
};

/// dx[n,k] = w_n / sum w (p[n,k] - (1-s) [k == label] - s/K); every block sums the weights for itself.
template <class T>
struct CrossEntropyGradientRows {
  static constexpr const char* kName = "cross_entropy gradient";
  static constexpr int kThreads = cuda::kRowThreads;
  using Shared = cuda::ReduceSpace<float, kThreads>;
  const T* logits;
  const float* kept;
  const int64_t* labels;
  const float* weights;  // or null: all 1
  const float* grad;
  T* to;
  int64_t rows;
  int64_t classes;
  float smoothing;

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, Shared& shared) const {
    const int64_t row = block.index();
    float total = static_cast<float>(rows);
    if (weights != nullptr)
      total = cuda::reduce_row(block, shared, rows, 0.0f, cuda::Add(), [&](int64_t i) { return weights[i]; });
    block.each([&](int thread) {
      const float weight = weights != nullptr ? weights[row] : 1.0f;
      const float factor = weight == 0 ? 0.0f : weight / total * grad[0];
      const int64_t label = labels[row];
      for (int64_t k = thread; k < classes; k += kThreads) {
        const float expected = smoothing / static_cast<float>(classes) + (k == label ? 1 - smoothing : 0.0f);
        const float log_p = cuda::widened(logits[row * classes + k]) - kept[2 * row] - kept[2 * row + 1];
        to[row * classes + k] =
            cuda::narrowed<T>(weight == 0 ? 0.0f : factor * (vector_math::exp(log_p) - expected));
      }
    });
  }
};

const float* weights_of(std::span<const Tensor> inputs) {
  return inputs.size() > 2 && inputs[2].defined() ? inputs[2].data<float>() : nullptr;
}

void forward(const ForwardArgs& args) {
  const Tensor& logits = args.inputs[0];
  const int64_t rows = logits.size(0);
  const Tensor losses = Tensor::empty({{2, rows}, DType::kF32}, logits.device());
  cuda::stored(logits.dtype(), [&](auto type) {
    using T = decltype(type);
    cuda::launch(CrossEntropyRows<T>{cuda::elements_of<T>(logits), args.inputs[1].data<int64_t>(),
                                     weights_of(args.inputs), args.outputs[1].data<float>(),
                                     losses.data<float>(), rows, logits.size(1),
                                     static_cast<float>(args.attrs.as<CrossEntropyAttrs>().label_smoothing)},
                 rows);
  });
  cuda::launch(CrossEntropyMean{losses.data<float>(), args.outputs[0].data<float>(), rows}, 1);
}

void backward(const BackwardArgs& args) {
  const Tensor& logits = args.inputs[0];
  const Tensor& grad_x = args.grad_inputs[0];
  const int64_t rows = grad_x.size(0);
  cuda::stored(logits.dtype(), [&](auto type) {
    using T = decltype(type);
    cuda::launch(
        CrossEntropyGradientRows<T>{
            cuda::elements_of<T>(logits), args.outputs[1].data<float>(), args.inputs[1].data<int64_t>(),
            weights_of(args.inputs), args.grad_outputs[0].data<float>(), cuda::elements_to<T>(grad_x), rows,
            grad_x.size(1), static_cast<float>(args.attrs.as<CrossEntropyAttrs>().label_smoothing)},
        rows);
  });
}

bool supports(std::span<const TensorSpec> inputs, const Attrs&) {
  return cuda::is_stored(inputs[0].dtype);
}

}  // namespace

DLPIPE_CUDA_KERNELS(cross_entropy) = {forward, backward, supports};

}  // namespace dlpipe::engine
