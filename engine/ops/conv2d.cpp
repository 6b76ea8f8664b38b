// conv2d: two-dimensional convolution (cross-correlation, as every framework means it) of NHWC images with
// OIHW weights, and the relu behind it when asked.
#include "dlpipe/engine/core/attr_form.h"
#include "dlpipe/engine/core/op.h"
#include "dlpipe/engine/ops/activation.h"
#include "dlpipe/engine/ops/ops.h"
#include "dlpipe/engine/ops/window.h"

namespace dlpipe::engine {
namespace {

void check_attrs(const Conv2dAttrs& attrs) {
  for (int axis = 0; axis < 2; ++axis) {
    if (attrs.stride[axis] < 1 || attrs.dilation[axis] < 1 || attrs.padding[axis] < 0) {
      refuse("conv2d", "expected stride and dilation of at least 1 and padding of at least 0, got ",
             attrs.stride[axis], ", ", attrs.dilation[axis], " and ", attrs.padding[axis]);
    }
  }
  if (attrs.activation == Activation::kGelu)
    refuse("conv2d", "expected no activation or relu, got gelu; call gelu() on the result");
}

std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs, std::span<const bool> defined,
                              const Attrs& any_attrs) {
  const auto& attrs = any_attrs.as<Conv2dAttrs>();
  const TensorSpec& x = inputs[0];
  const TensorSpec& weight = inputs[1];
  check_attrs(attrs);
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
           "; pad more or take a smaller kernel");
  }
  return {{{shape.n, shape.oh, shape.ow, shape.o}, x.dtype, Layout::kPlain}};
}

OpSample sample(const char* name, Shape x, Shape weight, bool bias, Conv2dAttrs attrs) {
  OpSample sample;
  sample.name = name;
  sample.inputs = {{x}, {weight}};
  if (bias) sample.inputs.push_back({Shape{weight[0]}});
  sample.attrs = attrs;
  return sample;
}

std::vector<OpSample> samples() {
  return {
      sample("3x3 pad 1, bias", {2, 5, 6, 3}, {4, 3, 3, 3}, true, {.padding = {1, 1}}),
      sample("blocks of channels", {2, 6, 7, 16}, {32, 16, 3, 3}, false, {.padding = {1, 1}}),
      sample("stride 2, odd channels", {1, 7, 9, 5}, {3, 5, 3, 3}, true, {.stride = {2, 2}}),
      sample("unequal everything", {3, 8, 5, 4}, {6, 4, 3, 2}, true,
             {.stride = {2, 1}, .padding = {0, 1}, .dilation = {1, 2}}),
      sample("dilation", {1, 9, 9, 8}, {8, 8, 3, 3}, false, {.padding = {2, 2}, .dilation = {2, 2}}),
      sample("1x1", {2, 4, 3, 16}, {8, 16, 1, 1}, true, {}),
      sample("1x1, stride 2", {2, 5, 5, 8}, {16, 8, 1, 1}, false, {.stride = {2, 2}}),
      sample("stride above kernel", {1, 8, 8, 3}, {4, 3, 2, 2}, true, {.stride = {3, 3}}),
      sample("groups", {2, 5, 5, 6}, {4, 3, 3, 3}, true, {.padding = {1, 1}, .groups = 2}),
      sample("depthwise", {2, 6, 5, 8}, {8, 1, 3, 3}, false, {.padding = {1, 1}, .groups = 8}),
      sample("7x7 stride 2 stem", {2, 14, 14, 3}, {16, 3, 7, 7}, false,
             {.stride = {2, 2}, .padding = {3, 3}}),
      sample("3x3, bias and relu", {2, 5, 6, 3}, {4, 3, 3, 3}, true,
             {.padding = {1, 1}, .activation = Activation::kRelu}),
      sample("blocks of channels, relu", {2, 6, 7, 16}, {32, 16, 3, 3}, false,
             {.padding = {1, 1}, .activation = Activation::kRelu}),
      sample("groups, bias and relu", {2, 5, 5, 6}, {4, 3, 3, 3}, true,
             {.padding = {1, 1}, .groups = 2, .activation = Activation::kRelu}),
      sample("depthwise, relu", {2, 6, 5, 8}, {8, 1, 3, 3}, false,
             {.padding = {1, 1}, .groups = 8, .activation = Activation::kRelu}),
  };
}

double flops(std::span<const TensorSpec> inputs, const Attrs& attrs) {
  return conv2d_shape(inputs[0].shape, inputs[1].shape, attrs.as<Conv2dAttrs>()).flops();
}

}  // namespace

extern const OpRecord conv2d_op;
const OpRecord conv2d_op{
    .name = "conv2d",
    .attr_form = &attr_form<Conv2dAttrs>,
    .input_count = {2, 3},
    .infer = infer,
    .save_inputs = bit(0) | bit(1),
    .autocast = Autocast::kLow,
    .layouts = kAllLayouts,
    .batch_inputs = bit(0),
    .fused = fused_op<Conv2dAttrs>,
    .samples = samples,
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
    .flops = flops,
};

Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Conv2dAttrs& attrs) {
  return apply_one(conv2d_op, {x, weight, bias}, attrs);
}

}  // namespace dlpipe::engine
