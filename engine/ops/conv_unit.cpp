#include "dlpipe/engine/ops/conv_unit.h"

#include <utility>

#include "dlpipe/engine/core/attr_form.h"
#include "dlpipe/engine/ops/window.h"

namespace dlpipe::engine {

extern const OpRecord conv2d_op;

namespace {

constexpr size_t kResidual = 3;

std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs, std::span<const bool> defined,
                              const Attrs& any_attrs) {
  const auto& attrs = any_attrs.as<ConvUnitAttrs>();
  const size_t own = std::min(inputs.size(), kResidual);
  std::vector<TensorSpec> outputs = conv2d_op.infer(inputs.first(own), defined.first(own), attrs.conv2d());
  if (has_input(defined, kResidual) &&
      (inputs[kResidual].shape != outputs[0].shape || inputs[kResidual].dtype != outputs[0].dtype)) {
    refuse("conv_unit", "expected a residual like the output, ", dtype_name(outputs[0].dtype), " ",
           outputs[0].shape.to_string(), ", got ", dtype_name(inputs[kResidual].dtype), " ",
           inputs[kResidual].shape.to_string());
  }
  return outputs;
}

OpSample sample(const char* name, Shape x, Shape weight, bool residual, ConvUnitAttrs attrs) {
  OpSample sample;
  sample.name = name;
  sample.inputs = {{x}, {weight}, {Shape{weight[0]}}};
  if (residual) {
    const Conv2dShape s = conv2d_shape(x, weight, attrs.conv2d());
    sample.inputs.push_back({Shape{s.n, s.oh, s.ow, s.o}});
  }
  sample.attrs = attrs;
  return sample;
}

std::vector<OpSample> samples() {
  const ConvUnitAttrs plain, clipped{.tail = ConvTail::kClip, .low = -0.25, .high = 0.5};
  const ConvUnitAttrs silu{.tail = ConvTail::kSilu};
  const auto window = [](int stride, int padding, int dilation, int groups, ConvTail tail) {
    return ConvUnitAttrs{.stride = {stride, stride},
                         .padding = {padding, padding},
                         .dilation = {dilation, dilation},
                         .groups = groups,
                         .tail = tail,
                         .low = 0,
                         .high = 0.75};
  };
  std::vector<OpSample> all = {
      sample("1x1", {2, 5, 5, 16}, {24, 16, 1, 1}, false, plain),
      sample("1x1, clip", {1, 9, 7, 24}, {144, 24, 1, 1}, false, clipped),
      sample("1x1, residual", {1, 3, 5, 33}, {17, 33, 1, 1}, true, plain),
      sample("1x1, silu and residual", {1, 7, 7, 19}, {69, 19, 1, 1}, true, silu),
      sample("1x1, clip and residual", {3, 2, 3, 8}, {64, 8, 1, 1}, true, clipped),
      sample("one pixel, one channel", {1, 1, 1, 1}, {1, 1, 1, 1}, false, clipped),
      sample("1x1, stride 2", {2, 5, 6, 8}, {16, 8, 1, 1}, false, window(2, 0, 1, 1, ConvTail::kNone)),
      sample("stem", {1, 15, 13, 3}, {40, 3, 3, 3}, false, window(2, 1, 1, 1, ConvTail::kClip)),
      sample("patches", {1, 8, 12, 3}, {20, 3, 4, 4}, false, window(4, 0, 1, 1, ConvTail::kNone)),
      sample("3x3, residual", {2, 6, 5, 8}, {8, 8, 3, 3}, true, window(1, 1, 1, 1, ConvTail::kSilu)),
      sample("3x3, dilation", {1, 9, 9, 4}, {12, 4, 3, 3}, false, window(1, 2, 2, 1, ConvTail::kNone)),
      sample("groups", {2, 5, 5, 6}, {4, 3, 3, 3}, true, window(1, 1, 1, 2, ConvTail::kClip)),
      sample("depthwise", {2, 11, 13, 32}, {32, 1, 3, 3}, false, window(1, 1, 1, 32, ConvTail::kClip)),
      sample("depthwise, odd channels", {1, 7, 9, 21}, {21, 1, 3, 3}, true,
             window(1, 1, 1, 21, ConvTail::kNone)),
      sample("depthwise, few channels", {1, 6, 6, 5}, {5, 1, 3, 3}, false,
             window(1, 1, 1, 5, ConvTail::kSilu)),
      sample("depthwise, stride 2", {1, 14, 15, 48}, {48, 1, 3, 3}, true,
             window(2, 1, 1, 48, ConvTail::kSilu)),
      sample("depthwise 5x5, stride 2", {2, 9, 8, 20}, {20, 1, 5, 5}, false,
             window(2, 2, 1, 20, ConvTail::kSilu)),
      sample("depthwise 7x7", {1, 10, 9, 16}, {16, 1, 7, 7}, false, window(1, 3, 1, 16, ConvTail::kNone)),
      sample("depthwise, filter above image", {1, 2, 3, 18}, {18, 1, 5, 5}, false,
             window(1, 2, 1, 18, ConvTail::kClip)),
      sample("depthwise, no padding", {1, 6, 8, 17}, {17, 1, 3, 3}, false,
             window(1, 0, 1, 17, ConvTail::kNone)),
      sample("depthwise, dilation", {1, 12, 10, 16}, {16, 1, 3, 3}, false,
             window(1, 2, 2, 16, ConvTail::kClip)),
      sample("depthwise, padding above filter", {1, 3, 3, 16}, {16, 1, 1, 1}, true,
             window(1, 1, 1, 16, ConvTail::kNone)),
      sample("depthwise, unequal everything", {1, 9, 12, 16}, {16, 1, 3, 2}, false,
             ConvUnitAttrs{.stride = {2, 1}, .padding = {0, 1}, .dilation = {1, 3}, .groups = 16}),
  };
  all.push_back(sample("no bias", {1, 4, 4, 8}, {16, 8, 1, 1}, false, plain));
  all.back().inputs.pop_back();
  return all;
}

double flops(std::span<const TensorSpec> inputs, const Attrs& attrs) {
  return conv2d_shape(inputs[0].shape, inputs[1].shape, attrs.as<ConvUnitAttrs>().conv2d()).flops();
}

}  // namespace

void run_in_parts(const ConvUnitParts& parts, const ForwardArgs& args) {
  const auto& attrs = args.attrs.as<ConvUnitAttrs>();
  Tensor y = args.outputs[0];
  const bool has_tail = attrs.tail != ConvTail::kNone, has_residual = has_input(args.inputs, kResidual);
  // Kernels may take it that what they read and what they write are two things.
  const auto run = [&](const Kernels& kernels, std::initializer_list<Tensor> inputs, const Attrs& part,
                       bool is_last) {
    Tensor to = is_last ? y : Tensor::empty(y.spec(), y.device());
    kernels.forward({{inputs.begin(), inputs.size()}, {&to, 1}, part});
    return to;
  };
  const Tensor bias = has_input(args.inputs, 2) ? args.inputs[2] : Tensor();
  Tensor value =
      run(parts.conv2d, {args.inputs[0], args.inputs[1], bias}, attrs.conv2d(), !has_tail && !has_residual);
  if (attrs.tail == ConvTail::kClip) {
    value = run(parts.clip, {value}, ClipAttrs{attrs.low, attrs.high}, !has_residual);
  } else if (attrs.tail == ConvTail::kSilu) {
    value = run(parts.silu, {value}, NoAttrs{}, !has_residual);
  }
  if (has_residual) run(parts.add, {value, args.inputs[kResidual]}, NoAttrs{}, true);
}

extern const OpRecord conv_unit_op;
const OpRecord conv_unit_op{
    .name = "conv_unit",
    .attr_form = &attr_form<ConvUnitAttrs>,
    .input_count = {2, 4},
    .infer = infer,
    .differentiable = 0,
    .autocast = Autocast::kLow,
    .batch_inputs = bit(0) | bit(kResidual),
    .samples = samples,
    .bench =
        [] {
          const ConvUnitAttrs clip{.tail = ConvTail::kClip, .low = 0, .high = 6};
          ConvUnitAttrs depthwise = clip;
          depthwise.padding = {1, 1};
          depthwise.groups = 192;
          return std::vector<OpSample>{
              {"1x1", {{{32, 28, 28, 32}}, {{192, 32, 1, 1}}, {{192}}}, clip},
              {"depthwise 3x3", {{{32, 28, 28, 192}}, {{192, 1, 3, 3}}, {{192}}}, depthwise}};
        },
    .f32 = {2e-4, 2e-5, "f32 sums of kh*kw*c products, in another order than f64's"},
    .bf16 = {3e-2, 3e-2, "inputs and outputs are rounded to 8 bits; sums are f32"},
    .f16 = {4e-3, 4e-3, "inputs and outputs are rounded to 11 bits; sums are f32"},
    .flops = flops,
};

Tensor conv_unit(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& residual,
                 const ConvUnitAttrs& attrs) {
  return apply_one(conv_unit_op, {x, weight, bias, residual}, attrs);
}

}  // namespace dlpipe::engine
