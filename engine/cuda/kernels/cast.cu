#include "dlpipe/engine/ops/cast.h"

#include "dlpipe/engine/cuda/loops/unary.h"

namespace dlpipe::engine {
namespace {

/// Between f32, bf16 and f16, those of autocast.
void convert_all(const Tensor& from, const Tensor& to) {
  cuda::stored(from.dtype(), [&](auto in) {
    cuda::stored(to.dtype(),
                 [&](auto out) { cuda::launch_map<decltype(in), decltype(out)>({from}, to, cuda::Same()); });
  });
}

bool supports(std::span<const TensorSpec> inputs, const Attrs& attrs) {
  return cuda::is_stored(inputs[0].dtype) && cuda::is_stored(attrs.as<CastAttrs>().dtype);
}
void forward(const ForwardArgs& args) {
  convert_all(args.inputs[0], args.outputs[0]);
}
void backward(const BackwardArgs& args) {
  convert_all(args.grad_outputs[0], args.grad_inputs[0]);
}

}  // namespace

DLPIPE_CUDA_KERNELS(cast) = {forward, backward, supports};

}  // namespace dlpipe::engine
