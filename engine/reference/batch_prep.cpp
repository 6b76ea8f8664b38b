#include "dlpipe/engine/ops/batch_prep.h"

#include "dlpipe/engine/core/op.h"

namespace dlpipe::engine {

namespace {

/// Element i of the images as prep.mix says.
float mixed(const Tensor& images, const BatchPrep& prep, int64_t i) {
  const auto* x = images.data<uint8_t>();
  const auto own = static_cast<float>(x[i]);
  if (prep.mix.empty()) return own;
  const int64_t width = images.size(2), channels = images.size(3);
  const int64_t sample = images.size(1) * width * channels;
  const SampleMix& mix = prep.mix[static_cast<size_t>(i / sample)];
  if (mix.partner < 0) return own;
  const auto other = static_cast<float>(x[mix.partner * sample + i % sample]);
  if (!has_box(mix)) return averaged(own, other, mix.lambda);
  const int64_t pixel = i % sample / channels;
  return is_in_box(mix.box, static_cast<int>(pixel % width), static_cast<int>(pixel / width)) ? other : own;
}

template <class T>
void prepare(const Tensor& images, const BatchPrep& prep, T* y) {
  for (int64_t i = 0; i < images.elements(); ++i) {
    const auto c = static_cast<size_t>(i % images.size(3));
    y[i] = T(prep.scale[c] * mixed(images, prep, i) + prep.bias[c]);
  }
}

void forward(const ForwardArgs& args) {
  const auto& prep = args.attrs.as<BatchPrep>();
  const Tensor& images = args.inputs[0];
  const Tensor& out = args.outputs[0];
  if (prep.dtype == DType::kF32) prepare(images, prep, out.data<float>());
  if (prep.dtype == DType::kF64) prepare(images, prep, out.data<double>());
  if (prep.dtype == DType::kBF16) prepare(images, prep, out.data<BFloat16>());
  if (prep.dtype == DType::kF16) prepare(images, prep, out.data<Float16>());
}

}  // namespace

extern const Kernels batch_prep_reference;
const Kernels batch_prep_reference = {.forward = forward};

}  // namespace dlpipe::engine
