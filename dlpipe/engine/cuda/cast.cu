#include "dlpipe/engine/ops/cast.h"

#include "dlpipe/engine/cuda/elements.h"

namespace dlpipe::engine {
namespace {

/// Between f32, bf16 and f16, those of autocast.
template <class From, class To>
struct CastKernel {
  static constexpr const char* kName = "cast";
  static constexpr int kThreads = 256;
  static constexpr int kEach = 8;  // elements a thread, sixteen or thirty-two bytes of them
  using Shared = cuda::NoShared;
  const From* from;
  To* to;
  int64_t count;

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, Shared&) const {
    block.each([&](int thread) {
      const int64_t first = (block.index() * kThreads + thread) * kEach;
      for (int64_t i = first; i < first + kEach && i < count; ++i)
        to[i] = cuda::narrowed<To>(cuda::widened(from[i]));
    });
  }
};

void convert_all(const Tensor& from, const Tensor& to) {
  cuda::stored(from.dtype(), [&](auto in) {
    cuda::stored(to.dtype(), [&](auto out) {
      using Kernel = CastKernel<decltype(in), decltype(out)>;
      cuda::launch(Kernel{cuda::elements_of<decltype(in)>(from), cuda::elements_to<decltype(out)>(to),
                          from.elements()},
                   cuda::blocks_for(from.elements(), int64_t{Kernel::kThreads} * Kernel::kEach));
    });
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
