#include "dlpipe/engine/cuda/loops/axis_sums.h"
#include "dlpipe/engine/cuda/loops/unary.h"

namespace dlpipe::engine {
namespace {

/// Squares of differences, one block per chunk.
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

/// 2 grad / count (x - other); the gradient is on the device.
struct MseGradient {
  static constexpr int kInputs = 2;
  const float* grad;
  float count;
  DLPIPE_DEVICE float operator()(const float (&in)[2], int64_t) const {
    return 2.0f * grad[0] / count * (in[0] - in[1]);
  }
};

void forward(const ForwardArgs& args) {
  const Tensor& x = args.inputs[0];
  const int64_t chunks = cuda::blocks_for(x.elements(), SquaresOfChunk::kChunk);
  const Tensor parts = Tensor::empty({{chunks}, DType::kF32}, x.device());
  cuda::launch(
      SquaresOfChunk{x.data<float>(), args.inputs[1].data<float>(), parts.data<float>(), x.elements()},
      chunks);
  const auto factor = static_cast<float>(1.0 / static_cast<double>(x.elements()));
  cuda::sum_axes<float, float>(parts, 1, factor, args.outputs[0]);
}

void backward(const BackwardArgs& args) {
  for (size_t side = 0; side < 2; ++side) {
    const Tensor& to = args.grad_inputs[side];
    if (!to.defined()) continue;
    cuda::launch_map<float>(
        {args.inputs[side], args.inputs[1 - side]}, to,
        MseGradient{args.grad_outputs[0].data<float>(), static_cast<float>(to.elements())});
  }
}

bool supports(std::span<const TensorSpec> inputs, const Attrs&) {
  return inputs[0].dtype == DType::kF32;
}

}  // namespace

DLPIPE_CUDA_KERNELS(mse) = {forward, backward, supports};

}  // namespace dlpipe::engine
