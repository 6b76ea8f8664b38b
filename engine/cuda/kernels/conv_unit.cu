#include "engine/ops/conv_unit.h"

#include "engine/cuda/grid/grid.h"

namespace dlpipe::engine {

extern const Kernels DLPIPE_CUDA_KERNELS_OF(add);
extern const Kernels DLPIPE_CUDA_KERNELS_OF(clip);
extern const Kernels DLPIPE_CUDA_KERNELS_OF(conv2d);
extern const Kernels DLPIPE_CUDA_KERNELS_OF(silu);

namespace {

void conv_unit_forward(const ForwardArgs& args) {
  run_in_parts({DLPIPE_CUDA_KERNELS_OF(conv2d), DLPIPE_CUDA_KERNELS_OF(clip), DLPIPE_CUDA_KERNELS_OF(silu),
                DLPIPE_CUDA_KERNELS_OF(add)},
               args);
}

bool supports_conv_unit(std::span<const TensorSpec> inputs, const Attrs& attrs) {
  return DLPIPE_CUDA_KERNELS_OF(conv2d).supports(inputs, Attrs(attrs.as<ConvUnitAttrs>().conv2d()));
}

}  // namespace

DLPIPE_CUDA_KERNELS(conv_unit) = {conv_unit_forward, nullptr, supports_conv_unit};

extern const Kernels DLPIPE_CUDA_KERNELS_OF(conv_unit);

namespace {

void conv_pair_forward(const ForwardArgs& args) {
  run_as_units(DLPIPE_CUDA_KERNELS_OF(conv_unit), args);
}

bool supports_conv_pair(std::span<const TensorSpec> inputs, const Attrs& any_attrs) {
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

DLPIPE_CUDA_KERNELS(conv_pair) = {conv_pair_forward, nullptr, supports_conv_pair};

}  // namespace dlpipe::engine
