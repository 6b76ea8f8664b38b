#include "dlpipe/engine/ops/softmax.h"

#include "dlpipe/engine/cuda/rows.h"
#include "dlpipe/engine/ops/axis_split.h"
#include "dlpipe/engine/ops/vector_math.h"

namespace dlpipe::engine {
namespace {

using cuda::kRowThreads;

/// One block a row.
struct SoftmaxRows {
  static constexpr const char* kName = "softmax";
  static constexpr int kThreads = kRowThreads;
  using Shared = cuda::ReduceSpace<float, kThreads>;
  const float* x;
  float* y;
  int64_t columns;

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, Shared& shared) const {
    const float* from = x + block.index() * columns;
    float* to = y + block.index() * columns;
    const float largest =
        cuda::reduce_row(block, shared, columns, from[0], cuda::Larger(), [&](int64_t i) { return from[i]; });
    const float sum = cuda::reduce_row(block, shared, columns, 0.0f, cuda::Add(),
                                       [&](int64_t i) { return vector_math::exp(from[i] - largest); });
    const float inverse = 1.0f / sum;
    block.each([&](int thread) {
      for (int64_t i = thread; i < columns; i += kThreads)
        to[i] = vector_math::exp(from[i] - largest) * inverse;
    });
  }
};

/// dx = y (dy - sum y dy)
struct SoftmaxGradientRows {
  static constexpr const char* kName = "softmax gradient";
  static constexpr int kThreads = kRowThreads;
  using Shared = cuda::ReduceSpace<float, kThreads>;
  const float* y;
  const float* grad_y;
  float* grad_x;
  int64_t columns;

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, Shared& shared) const {
    const float* p = y + block.index() * columns;
    const float* g = grad_y + block.index() * columns;
    float* to = grad_x + block.index() * columns;
    const float dot =
        cuda::reduce_row(block, shared, columns, 0.0f, cuda::Add(), [&](int64_t i) { return p[i] * g[i]; });
    block.each([&](int thread) {
      for (int64_t i = thread; i < columns; i += kThreads) to[i] = p[i] * (g[i] - dot);
    });
  }
};

void forward(const ForwardArgs& args) {
  const AxisSplit s(args.inputs[0].shape(), args.attrs.as<SoftmaxAttrs>().axis);
  cuda::launch(SoftmaxRows{args.inputs[0].data<float>(), args.outputs[0].data<float>(), s.count}, s.outer);
}

void backward(const BackwardArgs& args) {
  const AxisSplit s(args.grad_inputs[0].shape(), args.attrs.as<SoftmaxAttrs>().axis);
  cuda::launch(SoftmaxGradientRows{args.outputs[0].data<float>(), args.grad_outputs[0].data<float>(),
                                   args.grad_inputs[0].data<float>(), s.count},
               s.outer);
}

/// The last axis, where rows lie together.
bool supports(std::span<const TensorSpec> inputs, const Attrs& attrs) {
  return inputs[0].dtype == DType::kF32 && attrs.as<SoftmaxAttrs>().axis == inputs[0].shape.rank() - 1;
}

}  // namespace

DLPIPE_CUDA_KERNELS(softmax) = {forward, backward, supports};

}  // namespace dlpipe::engine
