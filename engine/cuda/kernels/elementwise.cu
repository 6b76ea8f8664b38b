#include "engine/cuda/grid/elements.h"
#include "engine/cuda/loops/formula.h"
#include "engine/ops/dropout.h"
#include "engine/ops/elementwise_chain.h"

namespace dlpipe::engine {
namespace {

/// Uses the same random words as the CPU's kernel: element i has word i % 4 of block i / 4.
struct DropoutMap {
  static constexpr int kInputs = 1;
  std::array<uint32_t, 2> key;
  const uint64_t* device_key;  // used instead of `key` unless null
  uint32_t call;
  uint32_t threshold;
  float scale;
  PhiloxBlock words = {};  // for element i and its three neighbours; drawn at the first of the four

  DLPIPE_DEVICE float operator()(const float (&in)[1], int64_t i) {
    const auto place = static_cast<uint32_t>(i) % 4;
    if (place == 0) {
      const std::array<uint32_t, 2> of_step = device_key != nullptr ? DropoutAttrs::split(*device_key) : key;
      words = philox4x32(DropoutAttrs::counter(static_cast<uint64_t>(i) / 4, call), of_step);
    }
    const uint32_t word = place == 0 ? words[0] : place == 1 ? words[1] : place == 2 ? words[2] : words[3];
    return word >= threshold ? in[0] * scale : 0.0f;
  }
};

void mask(const Tensor& from, const Tensor& to, const DropoutAttrs& attrs) {
  const void* const device_key = attrs.device_key.defined() ? attrs.device_key.raw() : nullptr;
  const DropoutMap map{attrs.key(), static_cast<const uint64_t*>(device_key), attrs.call, attrs.threshold(),
                       static_cast<float>(attrs.scale())};
  cuda::stored(from.dtype(), [&](auto type) { cuda::launch_map<decltype(type)>({from}, to, map); });
}
void dropout_forward(const ForwardArgs& args) {
  mask(args.inputs[0], args.outputs[0], args.attrs.as<DropoutAttrs>());
}
void dropout_backward(const BackwardArgs& args) {
  mask(args.grad_outputs[0], args.grad_inputs[0], args.attrs.as<DropoutAttrs>());
}

}  // namespace

DLPIPE_CUDA_KERNELS(dropout) = {dropout_forward, dropout_backward, cuda::supports_stored};

// On a device, a chain runs its ops one after another, like the ops that it was fused from.

namespace {

bool takes(DType dtype) {
  return dtype == DType::kF32 || is_low(dtype);
}

void chain_forward(const ForwardArgs& args) {
  run_chain(args, {takes, [](const OpRow& op, DType, const Attrs&) { return cuda::kernels_of(op); }});
}

bool supports_chain(std::span<const TensorSpec> inputs, const Attrs&) {
  for (const TensorSpec& input : inputs) {
    if (!takes(input.dtype)) return false;
  }
  return true;
}

}  // namespace

DLPIPE_CUDA_KERNELS(elementwise_chain) = {chain_forward, nullptr, supports_chain};

}  // namespace dlpipe::engine
