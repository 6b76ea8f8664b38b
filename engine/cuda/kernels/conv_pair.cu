#include "dlpipe/engine/ops/conv_pair.h"

#include "dlpipe/engine/cuda/grid/grid.h"

namespace dlpipe::engine {

extern const Kernels DLPIPE_CUDA_KERNELS_OF(conv_unit);

namespace {

void forward(const ForwardArgs& args) {
  run_as_units(DLPIPE_CUDA_KERNELS_OF(conv_unit), args);
}

bool supports(std::span<const TensorSpec> inputs, const Attrs& any_attrs) {
  const auto& attrs = any_attrs.as<ConvPairAttrs>();
  const Shape& x = inputs[0].shape;
  const int64_t middle = inputs[1].shape[0];
  const std::array<TensorSpec, 2> inner = {inputs[0], inputs[1]};
  const std::array<TensorSpec, 2> outer = {
      TensorSpec{{x[0], x[1], x[2], middle}, inputs[0].dtype, Layout::kPlain}, inputs[2]};
  const Kernels& unit = DLPIPE_CUDA_KERNELS_OF(conv_unit);
  return unit.supports(inner, attrs.inner()) && unit.supports(outer, attrs.outer(middle));
}

}  // namespace

DLPIPE_CUDA_KERNELS(conv_pair) = {forward, nullptr, supports};

}  // namespace dlpipe::engine
