#include "dlpipe/engine/ops/conv_transpose2d.h"

#include "dlpipe/engine/core/attr_form.h"
#include "dlpipe/engine/ops/activation.h"
#include "dlpipe/engine/ops/window.h"

namespace dlpipe::engine {
namespace {

void check_attrs(const ConvTranspose2dAttrs& attrs) {
  for (size_t axis = 0; axis < 2; ++axis) {
    if (attrs.stride[axis] < 1 || attrs.dilation[axis] < 1 || attrs.padding[axis] < 0) {
      refuse("conv_transpose2d", "expected stride and dilation of at least 1 and padding of at least 0, got ",
             attrs.stride[axis], ", ", attrs.dilation[axis], " and ", attrs.padding[axis]);
    }
    // More would be a row that the convolution of the output has and the input doesn't.
    if (attrs.output_padding[axis] < 0 || attrs.output_padding[axis] >= attrs.stride[axis]) {
      refuse("conv_transpose2d", "expected output_padding of 0 or more and less than the stride ",
             attrs.stride[axis], ", got ", attrs.output_padding[axis], "; pad the result");
    }
  }
}

std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs, std::span<const bool> /*defined*/,
                              const Attrs& any_attrs) {
  const auto& attrs = any_attrs.as<ConvTranspose2dAttrs>();
  const TensorSpec& x = inputs[0];
  const TensorSpec& weight = inputs[1];
  check_attrs(attrs);
  if (x.shape.rank() != 4 || !is_floating(x.dtype)) {
    refuse("conv_transpose2d", "expected floating images [N,H,W,C], got ", dtype_name(x.dtype), " ",
           x.shape.to_string(), "; reshape or cast");
  }
  if (weight.shape.rank() != 4 || weight.dtype != x.dtype) {
    refuse("conv_transpose2d", "expected ", dtype_name(x.dtype), " weights [C,O/groups,KH,KW], got ",
           dtype_name(weight.dtype), " ", weight.shape.to_string());
  }
  const int64_t channels = x.shape[3];
  if (weight.shape[0] != channels || attrs.groups < 1 || channels % attrs.groups != 0) {
    refuse("conv_transpose2d", "expected weights of ", channels,
           " input channels and groups that divide them, got ", weight.shape.to_string(), " and ",
           attrs.groups, " for images ", x.shape.to_string());
  }
  const Shape y = conv_transpose2d_shape(x.shape, weight.shape, attrs);
  if (weight.shape.elements() == 0 || x.shape[1] < 1 || x.shape[2] < 1 || y[1] < 1 || y[2] < 1) {
    refuse("conv_transpose2d", "expected images that the padding leaves something of, got images ",
           x.shape.to_string(), ", weights ", weight.shape.to_string(), ", padding ", attrs.padding[0], "x",
           attrs.padding[1], "; pad less");
  }
  return {{y, x.dtype, Layout::kPlain}};
}

OpSample sample(const char* name, Shape x, Shape weight, ConvTranspose2dAttrs attrs) {
  OpSample sample;
  sample.name = name;
  sample.inputs = {{x}, {weight}};
  sample.attrs = attrs;
  return sample;
}

std::vector<OpSample> samples() {
  return {
      sample("2x2 stride 2", {2, 3, 4, 6}, {6, 4, 2, 2}, {.stride = {2, 2}}),
      sample("blocks of channels", {2, 3, 4, 32}, {32, 16, 2, 2}, {.stride = {2, 2}}),
      sample("3x3 pad 1", {2, 5, 4, 16}, {16, 32, 3, 3}, {.padding = {1, 1}}),
      sample("4x4 stride 2 pad 1", {2, 3, 3, 5}, {5, 3, 4, 4}, {.stride = {2, 2}, .padding = {1, 1}}),
      sample("3x3 stride 2, a row more", {1, 4, 3, 8}, {8, 8, 3, 3},
             {.stride = {2, 2}, .padding = {1, 1}, .output_padding = {1, 1}}),
      sample("unequal everything", {3, 4, 5, 4}, {4, 6, 3, 2},
             {.stride = {2, 1}, .padding = {0, 1}, .output_padding = {1, 0}, .dilation = {1, 2}}),
      sample("groups", {2, 3, 4, 6}, {6, 2, 3, 3}, {.stride = {2, 2}, .padding = {1, 1}, .groups = 2}),
      sample("depthwise", {2, 4, 3, 8}, {8, 1, 4, 4}, {.stride = {2, 2}, .padding = {1, 1}, .groups = 8}),
      sample("1x1", {2, 3, 2, 4}, {4, 8, 1, 1}, {}),
      sample("stride above kernel", {1, 3, 3, 2}, {2, 3, 2, 2}, {.stride = {3, 3}, .output_padding = {2, 0}}),
  };
}

double flops(std::span<const TensorSpec> inputs, const Attrs& any_attrs) {
  const auto& attrs = any_attrs.as<ConvTranspose2dAttrs>();
  const Shape images = conv_transpose2d_shape(inputs[0].shape, inputs[1].shape, attrs);
  return conv2d_shape(images, inputs[1].shape, convolution_of(attrs)).flops();
}

}  // namespace

Conv2dAttrs convolution_of(const ConvTranspose2dAttrs& attrs) {
  return {attrs.stride, attrs.padding, attrs.dilation, attrs.groups, Activation::kNone};
}

Shape conv_transpose2d_shape(const Shape& x, const Shape& weight, const ConvTranspose2dAttrs& attrs) {
  const auto size = [&](size_t axis) {
    const int64_t in = x[static_cast<int>(axis) + 1], kernel = weight[static_cast<int>(axis) + 2];
    return (in - 1) * attrs.stride[axis] - 2 * int64_t{attrs.padding[axis]} +
           int64_t{attrs.dilation[axis]} * (kernel - 1) + attrs.output_padding[axis] + 1;
  };
  return {x[0], size(0), size(1), weight[1] * attrs.groups};
}

extern const OpRecord conv_transpose2d_op;
const OpRecord conv_transpose2d_op{
    .name = "conv_transpose2d",
    .attr_form = &attr_form<ConvTranspose2dAttrs>,
    .input_count = {2, 2},
    .infer = infer,
    .save_inputs = bit(0) | bit(1),
    .autocast = Autocast::kLow,
    .layouts = kAllLayouts,
    .batch_inputs = bit(0),
    .samples = samples,
    .bench =
        [] {
          return std::vector<OpSample>{
              sample("U-Net's, 2x2 stride 2", {4, 56, 56, 256}, {256, 128, 2, 2}, {.stride = {2, 2}}),
              sample("DCGAN's, 4x4 stride 2", {16, 16, 16, 256}, {256, 128, 4, 4},
                     {.stride = {2, 2}, .padding = {1, 1}})};
        },
    .f32 = {2e-4, 2e-5, "conv2d's sums, in another order than f64's"},
    .bf16 = {3e-2, 3e-2, "inputs and outputs are rounded to 8 bits; sums are f32"},
    .f16 = {4e-3, 4e-3, "inputs and outputs are rounded to 11 bits; sums are f32"},
    .flops = flops,
};

Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const ConvTranspose2dAttrs& attrs) {
  const Tensor y = apply_one(conv_transpose2d_op, {x, weight}, attrs);
  if (!bias.defined()) return y;
  if (bias.shape() != Shape{y.size(3)}) {
    refuse("conv_transpose2d", "expected a bias [", y.size(3), "], got ", bias.shape().to_string());
  }
  return add(y, cast(bias, y.dtype()));  // or autocast's answer would be widened to the bias's
}

}  // namespace dlpipe::engine
