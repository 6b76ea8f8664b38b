#include "dlpipe/base/batch_prep.h"

#include "dlpipe/engine/op.h"

namespace dlpipe::engine {

namespace {

template <class T>
void prepare(const uint8_t* x, int64_t count, int64_t channels, const BatchPrep& prep, T* y) {
  for (int64_t i = 0; i < count; ++i) {
    const auto c = static_cast<size_t>(i % channels);
    y[i] = T(prep.scale[c] * static_cast<float>(x[i]) + prep.bias[c]);
  }
}

void forward(const ForwardArgs& args) {
  const auto& prep = args.attrs.as<BatchPrep>();
  const Tensor& images = args.inputs[0];
  const Tensor& out = args.outputs[0];
  const auto* x = images.data<uint8_t>();
  const int64_t channels = images.size(3);
  if (prep.dtype == DType::kF32) prepare(x, images.elements(), channels, prep, out.data<float>());
  if (prep.dtype == DType::kF64) prepare(x, images.elements(), channels, prep, out.data<double>());
  if (prep.dtype == DType::kBF16) prepare(x, images.elements(), channels, prep, out.data<BFloat16>());
}

}  // namespace

extern const Kernels batch_prep_reference;
const Kernels batch_prep_reference = {.forward = forward};

}  // namespace dlpipe::engine
