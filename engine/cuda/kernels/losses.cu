#include "engine/ops/losses.h"

#include <concepts>

#include "engine/cuda/loops/formula.h"
#include "engine/cuda/loops/sums.h"
#include "engine/ops/shape_ops.h"
#include "engine/ops/vector_math.h"

namespace dlpipe::engine::cuda {
inline namespace DLPIPE_GRID_NAMESPACE {

template <class Rule>
concept SoftmaxLike = requires(float x) {
  { Rule::kName } -> std::convertible_to<const char*>;
  { Rule::kGradientName } -> std::convertible_to<const char*>;
  { Rule::norm(x) } -> std::same_as<float>;            // sum of exponentials: what a row keeps of it
  { Rule::value(x, x) } -> std::same_as<float>;        // shifted (x minus the row's largest), norm
  { Rule::term(x, x) } -> std::same_as<float>;         // y, grad: a term of the sum for backward
  { Rule::gradient(x, x, x) } -> std::same_as<float>;  // y, grad, that sum
};

template <SoftmaxLike Rule>
struct SoftmaxRows {
  static constexpr const char* kName = Rule::kName;
  static constexpr int kThreads = kRowThreads;
  using Shared = ReduceSpace<float, kThreads>;
  const float* x;
  float* y;
  int64_t columns;

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, Shared& shared) const {
    const float* from = x + block.index() * columns;
    float* to = y + block.index() * columns;
    const ExpSum e = reduce_exponentials(block, shared, columns, [&](int64_t i) { return from[i]; });
    const float norm = Rule::norm(e.sum);
    block.each([&](int thread) {
      for (int64_t i = thread; i < columns; i += kThreads) to[i] = Rule::value(from[i] - e.largest, norm);
    });
  }
};

template <SoftmaxLike Rule>
struct SoftmaxGradientRows {
  static constexpr const char* kName = Rule::kGradientName;
  static constexpr int kThreads = kRowThreads;
  using Shared = ReduceSpace<float, kThreads>;
  const float* y;
  const float* grad_y;
  float* grad_x;
  int64_t columns;

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, Shared& shared) const {
    const float* out = y + block.index() * columns;
    const float* grad = grad_y + block.index() * columns;
    float* to = grad_x + block.index() * columns;
    const float sum = reduce_row(block, shared, columns, 0.0f, Add(),
                                 [&](int64_t i) { return Rule::term(out[i], grad[i]); });
    block.each([&](int thread) {
      for (int64_t i = thread; i < columns; i += kThreads) to[i] = Rule::gradient(out[i], grad[i], sum);
    });
  }
};

template <SoftmaxLike Rule>
void softmax_forward(const ForwardArgs& args) {
  const AxisSplit s(args.inputs[0].shape(), args.attrs.as<SoftmaxAttrs>().axis);
  launch(SoftmaxRows<Rule>{args.inputs[0].data<float>(), args.outputs[0].data<float>(), s.count}, s.outer);
}

template <SoftmaxLike Rule>
void softmax_backward(const BackwardArgs& args) {
  const AxisSplit s(args.grad_inputs[0].shape(), args.attrs.as<SoftmaxAttrs>().axis);
  launch(SoftmaxGradientRows<Rule>{args.outputs[0].data<float>(), args.grad_outputs[0].data<float>(),
                                   args.grad_inputs[0].data<float>(), s.count},
         s.outer);
}

/// Supports the last axis only, whose rows are contiguous.
static bool supports_softmax(std::span<const TensorSpec> inputs, const Attrs& attrs) {
  return inputs[0].dtype == DType::kF32 && attrs.as<SoftmaxAttrs>().axis == inputs[0].shape.rank() - 1;
}

template <SoftmaxLike Rule>
constexpr Kernels softmax_kernels() {
  return {softmax_forward<Rule>, softmax_backward<Rule>, supports_softmax};
}

}  // namespace DLPIPE_GRID_NAMESPACE
}  // namespace dlpipe::engine::cuda

namespace dlpipe::engine {
namespace {

/// dx = y (dy - sum y dy)
struct SoftmaxRule {
  static constexpr const char* kName = "softmax";
  static constexpr const char* kGradientName = "softmax gradient";
  DLPIPE_DEVICE static float norm(float sum) { return 1.0f / sum; }
  DLPIPE_DEVICE static float value(float shifted, float norm) { return vector_math::exp(shifted) * norm; }
  DLPIPE_DEVICE static float term(float y, float grad) { return y * grad; }
  DLPIPE_DEVICE static float gradient(float y, float grad, float sum) { return y * (grad - sum); }
};

}  // namespace

DLPIPE_CUDA_KERNELS(softmax) = cuda::softmax_kernels<SoftmaxRule>();

namespace {

/// dx = dy - e^y sum dy
struct LogSoftmaxRule {
  static constexpr const char* kName = "log_softmax";
  static constexpr const char* kGradientName = "log_softmax gradient";
  DLPIPE_DEVICE static float norm(float sum) { return vector_math::log(sum); }
  DLPIPE_DEVICE static float value(float shifted, float norm) { return shifted - norm; }
  DLPIPE_DEVICE static float term(float, float grad) { return grad; }
  DLPIPE_DEVICE static float gradient(float y, float grad, float sum) {
    return grad - vector_math::exp(y) * sum;
  }
};

}  // namespace

DLPIPE_CUDA_KERNELS(log_softmax) = cuda::softmax_kernels<LogSoftmaxRule>();

namespace {

/// A row's part of the loss. It is NaN for a label that is not a class, because a kernel can't throw.
template <class T>
struct CrossEntropyRows {
  static constexpr const char* kName = "cross_entropy";
  static constexpr int kThreads = cuda::kRowThreads;
  using Shared = cuda::ReduceSpace<float, kThreads>;
  const T* logits;
  const int64_t* labels;
  const float* weights;  // or null: all 1
  float* kept;           // per row, for backward: its largest logit, log sum exp(logit - largest)
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
    float all = 0;  // only for smoothing: it reads the row again, and rows of a vocabulary don't fit a cache
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

/// loss = sum of losses / sum of weights.
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

/// dx[n,k] = w_n / sum w (p[n,k] - (1-s) [k == label] - s/K). Every block computes the sum of weights itself.
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

void cross_entropy_forward(const ForwardArgs& args) {
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

void cross_entropy_backward(const BackwardArgs& args) {
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

bool supports_cross_entropy(std::span<const TensorSpec> inputs, const Attrs&) {
  return cuda::is_stored(inputs[0].dtype);
}

}  // namespace

DLPIPE_CUDA_KERNELS(cross_entropy) = {cross_entropy_forward, cross_entropy_backward, supports_cross_entropy};

namespace {

/// The sum of squared differences of a chunk. One block per chunk.
struct SquaresOfChunk {
  static constexpr const char* kName = "mse";
  static constexpr int kThreads = cuda::kRowThreads;
  static constexpr int64_t kChunk = 4096;
  using Shared = cuda::ReduceSpace<float, kThreads>;
  const float* x;
  const float* target;
  float* to;
  int64_t count;

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, Shared& shared) const {
    const int64_t first = block.index() * kChunk;
    const int64_t terms = count - first < kChunk ? count - first : kChunk;
    const float sum = cuda::reduce_row(block, shared, terms, 0.0f, cuda::Add(), [&](int64_t i) {
      const float difference = x[first + i] - target[first + i];
      return difference * difference;
    });
    block.each([&](int thread) {
      if (thread == 0) to[block.index()] = sum;
    });
  }
};

/// 2 grad / count (x - other). The loss's gradient, `grad`, is on the device.
struct MseGradient {
  static constexpr int kInputs = 2;
  const float* grad;
  float count;
  DLPIPE_DEVICE float operator()(const float (&in)[2], int64_t) const {
    return 2.0f * grad[0] / count * (in[0] - in[1]);
  }
};

void mse_forward(const ForwardArgs& args) {
  const Tensor& x = args.inputs[0];
  const int64_t chunks = cuda::blocks_for(x.elements(), SquaresOfChunk::kChunk);
  const Tensor parts = Tensor::empty({{chunks}, DType::kF32}, x.device());
  cuda::launch(
      SquaresOfChunk{x.data<float>(), args.inputs[1].data<float>(), parts.data<float>(), x.elements()},
      chunks);
  const auto factor = static_cast<float>(1.0 / static_cast<double>(x.elements()));
  cuda::sum_axes<float, float>(parts, 1, factor, args.outputs[0]);
}

void mse_backward(const BackwardArgs& args) {
  for (size_t side = 0; side < 2; ++side) {
    const Tensor& to = args.grad_inputs[side];
    if (!to.defined()) continue;
    cuda::launch_map<float>(
        {args.inputs[side], args.inputs[1 - side]}, to,
        MseGradient{args.grad_outputs[0].data<float>(), static_cast<float>(to.elements())});
  }
}

bool supports_mse(std::span<const TensorSpec> inputs, const Attrs&) {
  return inputs[0].dtype == DType::kF32;
}

}  // namespace

DLPIPE_CUDA_KERNELS(mse) = {mse_forward, mse_backward, supports_mse};

}  // namespace dlpipe::engine
