// Two-dimensional convolutions and transposed convolutions.
#include "engine/ops/conv2d.h"

#include "dlpipe/op.h"
#include "dlpipe/ops.h"
#include "engine/core/attr_form.h"
#include "engine/ops/unary.h"
#include "engine/ops/window.h"

namespace dlpipe::engine {

// conv2d: two-dimensional convolution (cross-correlation, as in every framework) of NHWC images with
// OIHW weights, optionally followed by relu.

namespace {

void check_conv2d_attrs(const Conv2dAttrs& attrs) {
  for (int axis = 0; axis < 2; ++axis) {
    if (attrs.stride[axis] < 1 || attrs.dilation[axis] < 1 || attrs.padding[axis] < 0) {
      refuse("conv2d", "expected stride and dilation of at least 1 and padding of at least 0, got ",
             attrs.stride[axis], ", ", attrs.dilation[axis], " and ", attrs.padding[axis]);
    }
  }
  if (attrs.activation == Activation::kGelu)
    refuse("conv2d", "expected no activation or relu, got gelu; call gelu() on the result");
}

std::vector<TensorSpec> conv2d_rule(std::span<const TensorSpec> inputs, std::span<const bool> defined,
                                    const Attrs& any_attrs) {
  const auto& attrs = any_attrs.as<Conv2dAttrs>();
  const TensorSpec& x = inputs[0];
  const TensorSpec& weight = inputs[1];
  check_conv2d_attrs(attrs);
  if (x.shape.rank() != 4 || !is_floating(x.dtype)) {
    refuse("conv2d", "expected floating images [N,H,W,C], got ", dtype_name(x.dtype), " ",
           x.shape.to_string(), "; reshape or cast");
  }
  if (weight.shape.rank() != 4 || weight.dtype != x.dtype) {
    refuse("conv2d", "expected ", dtype_name(x.dtype), " weights [O,C/groups,KH,KW], got ",
           dtype_name(weight.dtype), " ", weight.shape.to_string());
  }
  const int64_t channels = x.shape[3];
  if (attrs.groups < 1 || channels % attrs.groups != 0 || weight.shape[0] % attrs.groups != 0) {
    refuse("conv2d", "expected groups that divide ", channels, " input and ", weight.shape[0],
           " output channels, got ", attrs.groups);
  }
  if (weight.shape[1] * attrs.groups != channels) {
    refuse("conv2d", "expected weights of ", channels / attrs.groups, " input channels (", channels, " / ",
           attrs.groups, " groups), got ", weight.shape.to_string(), " for images ", x.shape.to_string());
  }
  if (has_input(defined, 2) && (inputs[2].shape != Shape{weight.shape[0]} || inputs[2].dtype != x.dtype)) {
    refuse("conv2d", "expected a ", dtype_name(x.dtype), " bias [", weight.shape[0], "], got ",
           dtype_name(inputs[2].dtype), " ", inputs[2].shape.to_string());
  }
  const Conv2dShape shape = conv2d_shape(x.shape, weight.shape, attrs);
  if (weight.shape.elements() == 0 || shape.oh < 1 || shape.ow < 1) {
    refuse("conv2d", "expected images that the kernel fits into, got images ", x.shape.to_string(),
           ", weights ", weight.shape.to_string(), ", padding ", attrs.padding[0], "x", attrs.padding[1],
           "; pad more or use a smaller kernel");
  }
  return {{{shape.n, shape.oh, shape.ow, shape.o}, x.dtype, Layout::kPlain}};
}

OpSample conv2d_sample(const char* name, Shape x, Shape weight, bool bias, Conv2dAttrs attrs) {
  OpSample sample;
  sample.name = name;
  sample.inputs = {{x}, {weight}};
  if (bias) sample.inputs.push_back({Shape{weight[0]}});
  sample.attrs = attrs;
  return sample;
}

std::vector<OpSample> conv2d_samples() {
  return {
      conv2d_sample("3x3 pad 1, bias", {2, 5, 6, 3}, {4, 3, 3, 3}, true, {.padding = {1, 1}}),
      conv2d_sample("blocks of channels", {2, 6, 7, 16}, {32, 16, 3, 3}, false, {.padding = {1, 1}}),
      conv2d_sample("stride 2, odd channels", {1, 7, 9, 5}, {3, 5, 3, 3}, true, {.stride = {2, 2}}),
      conv2d_sample("unequal everything", {3, 8, 5, 4}, {6, 4, 3, 2}, true,
                    {.stride = {2, 1}, .padding = {0, 1}, .dilation = {1, 2}}),
      conv2d_sample("dilation", {1, 9, 9, 8}, {8, 8, 3, 3}, false, {.padding = {2, 2}, .dilation = {2, 2}}),
      conv2d_sample("dilation 2, blocks of channels, bias", {2, 12, 11, 16}, {32, 16, 3, 3}, true,
                    {.padding = {2, 2}, .dilation = {2, 2}}),
      conv2d_sample("more dilation than image, blocks of channels, relu", {2, 6, 9, 16}, {32, 16, 3, 3}, true,
                    {.padding = {7, 7}, .dilation = {7, 7}, .activation = Activation::kRelu}),
      conv2d_sample("1x1", {2, 4, 3, 16}, {8, 16, 1, 1}, true, {}),
      conv2d_sample("1x1, stride 2", {2, 5, 5, 8}, {16, 8, 1, 1}, false, {.stride = {2, 2}}),
      conv2d_sample("stride above kernel", {1, 8, 8, 3}, {4, 3, 2, 2}, true, {.stride = {3, 3}}),
      conv2d_sample("groups", {2, 5, 5, 6}, {4, 3, 3, 3}, true, {.padding = {1, 1}, .groups = 2}),
      conv2d_sample("depthwise", {2, 6, 5, 8}, {8, 1, 3, 3}, false, {.padding = {1, 1}, .groups = 8}),
      conv2d_sample("depthwise 5x5, stride 2, blocks of channels, bias", {2, 9, 12, 16}, {16, 1, 5, 5}, true,
                    {.stride = {2, 2}, .padding = {2, 2}, .groups = 16}),
      conv2d_sample("7x7 stride 2 stem", {2, 14, 14, 3}, {16, 3, 7, 7}, false,
                    {.stride = {2, 2}, .padding = {3, 3}}),
      conv2d_sample("3x3, bias and relu", {2, 5, 6, 3}, {4, 3, 3, 3}, true,
                    {.padding = {1, 1}, .activation = Activation::kRelu}),
      conv2d_sample("blocks of channels, relu", {2, 6, 7, 16}, {32, 16, 3, 3}, false,
                    {.padding = {1, 1}, .activation = Activation::kRelu}),
      conv2d_sample("groups, bias and relu", {2, 5, 5, 6}, {4, 3, 3, 3}, true,
                    {.padding = {1, 1}, .groups = 2, .activation = Activation::kRelu}),
      conv2d_sample("depthwise, relu", {2, 6, 5, 8}, {8, 1, 3, 3}, false,
                    {.padding = {1, 1}, .groups = 8, .activation = Activation::kRelu}),
  };
}

double conv2d_flops(std::span<const TensorSpec> inputs, const Attrs& attrs) {
  return conv2d_shape(inputs[0].shape, inputs[1].shape, attrs.as<Conv2dAttrs>()).flops();
}

}  // namespace

extern const OpRecord conv2d_op;
const OpRecord conv2d_op{
    .name = "conv2d",
    .attr_form = &attr_form<Conv2dAttrs>,
    .input_count = {2, 3},
    .infer = conv2d_rule,
    .save_inputs = bit(0) | bit(1),
    .autocast = Autocast::kLow,
    .layouts = kAllLayouts,
    .batch_inputs = bit(0),
    .fused = fused_op<Conv2dAttrs>,
    .samples = conv2d_samples,
    .bench =
        [] {
          return std::vector<OpSample>{
              {"3x3", {{{32, 56, 56, 64}}, {{64, 64, 3, 3}}}, Conv2dAttrs{.padding = {1, 1}}},
              {"1x1", {{{32, 14, 14, 1024}}, {{256, 1024, 1, 1}}}, Conv2dAttrs{}},
              {"7x7 stride 2",
               {{{32, 224, 224, 3}}, {{64, 3, 7, 7}}},
               Conv2dAttrs{.stride = {2, 2}, .padding = {3, 3}}},
              {"a filter per channel",
               {{{64, 56, 56, 128}}, {{128, 1, 3, 3}}, {{128}}},
               Conv2dAttrs{.padding = {1, 1}, .groups = 128}}};
        },
    .f32 = {2e-4, 2e-5, "f32 sums of kh*kw*c products (backward: n*oh*ow), in another order than f64's"},
    .bf16 = {3e-2, 3e-2, "inputs and outputs are rounded to 8 bits; sums are f32"},
    .f16 = {4e-3, 4e-3, "inputs and outputs are rounded to 11 bits; sums are f32"},
    .flops = conv2d_flops,
};

Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Conv2dAttrs& attrs) {
  return apply_one(conv2d_op, {x, weight, bias}, attrs);
}

namespace {

void check_conv_transpose2d_attrs(const ConvTranspose2dAttrs& attrs) {
  for (size_t axis = 0; axis < 2; ++axis) {
    if (attrs.stride[axis] < 1 || attrs.dilation[axis] < 1 || attrs.padding[axis] < 0) {
      refuse("conv_transpose2d", "expected stride and dilation of at least 1 and padding of at least 0, got ",
             attrs.stride[axis], ", ", attrs.dilation[axis], " and ", attrs.padding[axis]);
    }
    // With a larger value, the convolution of the output would have more rows or columns than the input.
    if (attrs.output_padding[axis] < 0 || attrs.output_padding[axis] >= attrs.stride[axis]) {
      refuse("conv_transpose2d", "expected output_padding of 0 or more and less than the stride ",
             attrs.stride[axis], ", got ", attrs.output_padding[axis], "; pad the result");
    }
  }
}

std::vector<TensorSpec> conv_transpose2d_rule(std::span<const TensorSpec> inputs,
                                              std::span<const bool> /*defined*/, const Attrs& any_attrs) {
  const auto& attrs = any_attrs.as<ConvTranspose2dAttrs>();
  const TensorSpec& x = inputs[0];
  const TensorSpec& weight = inputs[1];
  check_conv_transpose2d_attrs(attrs);
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
    refuse("conv_transpose2d", "expected images with an output larger than the padding, got images ",
           x.shape.to_string(), ", weights ", weight.shape.to_string(), ", padding ", attrs.padding[0], "x",
           attrs.padding[1], "; pad less");
  }
  return {{y, x.dtype, Layout::kPlain}};
}

OpSample conv_transpose2d_sample(const char* name, Shape x, Shape weight, ConvTranspose2dAttrs attrs) {
  OpSample sample;
  sample.name = name;
  sample.inputs = {{x}, {weight}};
  sample.attrs = attrs;
  return sample;
}

std::vector<OpSample> conv_transpose2d_samples() {
  return {
      conv_transpose2d_sample("2x2 stride 2", {2, 3, 4, 6}, {6, 4, 2, 2}, {.stride = {2, 2}}),
      conv_transpose2d_sample("blocks of channels", {2, 3, 4, 32}, {32, 16, 2, 2}, {.stride = {2, 2}}),
      conv_transpose2d_sample("3x3 pad 1", {2, 5, 4, 16}, {16, 32, 3, 3}, {.padding = {1, 1}}),
      conv_transpose2d_sample("4x4 stride 2 pad 1", {2, 3, 3, 5}, {5, 3, 4, 4},
                              {.stride = {2, 2}, .padding = {1, 1}}),
      conv_transpose2d_sample("3x3 stride 2, a row more", {1, 4, 3, 8}, {8, 8, 3, 3},
                              {.stride = {2, 2}, .padding = {1, 1}, .output_padding = {1, 1}}),
      conv_transpose2d_sample(
          "unequal everything", {3, 4, 5, 4}, {4, 6, 3, 2},
          {.stride = {2, 1}, .padding = {0, 1}, .output_padding = {1, 0}, .dilation = {1, 2}}),
      conv_transpose2d_sample("groups", {2, 3, 4, 6}, {6, 2, 3, 3},
                              {.stride = {2, 2}, .padding = {1, 1}, .groups = 2}),
      conv_transpose2d_sample("depthwise", {2, 4, 3, 8}, {8, 1, 4, 4},
                              {.stride = {2, 2}, .padding = {1, 1}, .groups = 8}),
      conv_transpose2d_sample("1x1", {2, 3, 2, 4}, {4, 8, 1, 1}, {}),
      conv_transpose2d_sample("stride above kernel", {1, 3, 3, 2}, {2, 3, 2, 2},
                              {.stride = {3, 3}, .output_padding = {2, 0}}),
  };
}

double conv_transpose2d_flops(std::span<const TensorSpec> inputs, const Attrs& any_attrs) {
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
    .infer = conv_transpose2d_rule,
    .save_inputs = bit(0) | bit(1),
    .autocast = Autocast::kLow,
    .layouts = kAllLayouts,
    .batch_inputs = bit(0),
    .samples = conv_transpose2d_samples,
    .bench =
        [] {
          return std::vector<OpSample>{
              conv_transpose2d_sample("U-Net's, 2x2 stride 2", {4, 56, 56, 256}, {256, 128, 2, 2},
                                      {.stride = {2, 2}}),
              conv_transpose2d_sample("DCGAN's, 4x4 stride 2", {16, 16, 16, 256}, {256, 128, 4, 4},
                                      {.stride = {2, 2}, .padding = {1, 1}})};
        },
    .f32 = {2e-4, 2e-5, "conv2d's sums, in another order than f64's"},
    .bf16 = {3e-2, 3e-2, "inputs and outputs are rounded to 8 bits; sums are f32"},
    .f16 = {4e-3, 4e-3, "inputs and outputs are rounded to 11 bits; sums are f32"},
    .flops = conv_transpose2d_flops,
};

Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const ConvTranspose2dAttrs& attrs) {
  const Tensor y = apply_one(conv_transpose2d_op, {x, weight}, attrs);
  if (!bias.defined()) return y;
  if (bias.shape() != Shape{y.size(3)}) {
    refuse("conv_transpose2d", "expected a bias [", y.size(3), "], got ", bias.shape().to_string());
  }
  return add(y, cast(bias, y.dtype()));  // uncast, a wider bias would widen a result in autocast's dtype
}

}  // namespace dlpipe::engine
