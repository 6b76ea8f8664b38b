#include "dlpipe/engine/ops/dropout.h"

#include "dlpipe/engine/cuda/unary.h"

namespace dlpipe::engine {
namespace {

/// The very words of the cpu's kernel: element i has word i % 4 of block i / 4.
struct DropoutMap {
  static constexpr int kInputs = 1;
  DropoutAttrs attrs;
  std::array<uint32_t, 2> key;
  uint32_t threshold;
  float scale;

  DLPIPE_DEVICE float operator()(const float (&in)[1], int64_t i) const {
    const PhiloxBlock block = philox4x32(attrs.counter(static_cast<uint64_t>(i) / 4), key);
    return block[static_cast<size_t>(i % 4)] >= threshold ? in[0] * scale : 0.0f;
  }
};

void mask(const Tensor& from, const Tensor& to, const DropoutAttrs& attrs) {
  const DropoutMap map{attrs, attrs.key(), attrs.threshold(), static_cast<float>(attrs.scale())};
  cuda::stored(from.dtype(), [&](auto type) { cuda::launch_map<decltype(type)>({from}, to, map); });
}
void forward(const ForwardArgs& args) {
  mask(args.inputs[0], args.outputs[0], args.attrs.as<DropoutAttrs>());
}
void backward(const BackwardArgs& args) {
  mask(args.grad_outputs[0], args.grad_inputs[0], args.attrs.as<DropoutAttrs>());
}

}  // namespace

DLPIPE_CUDA_KERNELS(dropout) = {forward, backward, cuda::supports_f32_bf16};

}  // namespace dlpipe::engine
