#include "dlpipe/engine/cpu/loops/elementwise.h"
#include "dlpipe/engine/cpu/loops/rows.h"

namespace dlpipe::engine {

namespace {

constexpr int64_t kChunk = 16384;  // squares added in f32; the chunks' sums are added in double

void forward(const ForwardArgs& args) {
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

void backward(const BackwardArgs& args) {
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
    .forward = forward,
    .backward = backward,
    .supports = [](std::span<const TensorSpec> inputs,
                   const Attrs&) { return inputs[0].dtype == DType::kF32; },
};

}  // namespace dlpipe::engine
