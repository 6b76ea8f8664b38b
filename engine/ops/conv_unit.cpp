// The convolutions of compiled graphs: conv_unit and conv_pair.
#include "engine/ops/conv_unit.h"

#include <utility>

#include "engine/core/attr_form.h"
#include "engine/ops/window.h"

namespace dlpipe::engine {

extern const OpRecord conv2d_op;

namespace {

constexpr size_t kResidual = 3;

std::vector<TensorSpec> conv_unit_rule(std::span<const TensorSpec> inputs, std::span<const bool> defined,
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

OpSample conv_unit_sample(const char* name, Shape x, Shape weight, bool residual, ConvUnitAttrs attrs) {
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

std::vector<OpSample> conv_unit_samples() {
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
      conv_unit_sample("1x1", {2, 5, 5, 16}, {24, 16, 1, 1}, false, plain),
      conv_unit_sample("1x1, clip", {1, 9, 7, 24}, {144, 24, 1, 1}, false, clipped),
      conv_unit_sample("1x1, residual", {1, 3, 5, 33}, {17, 33, 1, 1}, true, plain),
      conv_unit_sample("1x1, silu and residual", {1, 7, 7, 19}, {69, 19, 1, 1}, true, silu),
      conv_unit_sample("1x1, clip and residual", {3, 2, 3, 8}, {64, 8, 1, 1}, true, clipped),
      conv_unit_sample("one pixel, one channel", {1, 1, 1, 1}, {1, 1, 1, 1}, false, clipped),
      conv_unit_sample("1x1, stride 2", {2, 5, 6, 8}, {16, 8, 1, 1}, false,
                       window(2, 0, 1, 1, ConvTail::kNone)),
      conv_unit_sample("stem", {1, 15, 13, 3}, {40, 3, 3, 3}, false, window(2, 1, 1, 1, ConvTail::kClip)),
      conv_unit_sample("patches", {1, 8, 12, 3}, {20, 3, 4, 4}, false, window(4, 0, 1, 1, ConvTail::kNone)),
      conv_unit_sample("3x3, residual", {2, 6, 5, 8}, {8, 8, 3, 3}, true,
                       window(1, 1, 1, 1, ConvTail::kSilu)),
      conv_unit_sample("3x3, dilation", {1, 9, 9, 4}, {12, 4, 3, 3}, false,
                       window(1, 2, 2, 1, ConvTail::kNone)),
      conv_unit_sample("groups", {2, 5, 5, 6}, {4, 3, 3, 3}, true, window(1, 1, 1, 2, ConvTail::kClip)),
      conv_unit_sample("depthwise", {2, 11, 13, 32}, {32, 1, 3, 3}, false,
                       window(1, 1, 1, 32, ConvTail::kClip)),
      conv_unit_sample("depthwise, odd channels", {1, 7, 9, 21}, {21, 1, 3, 3}, true,
                       window(1, 1, 1, 21, ConvTail::kNone)),
      conv_unit_sample("depthwise, few channels", {1, 6, 6, 5}, {5, 1, 3, 3}, false,
                       window(1, 1, 1, 5, ConvTail::kSilu)),
      conv_unit_sample("depthwise, stride 2", {1, 14, 15, 48}, {48, 1, 3, 3}, true,
                       window(2, 1, 1, 48, ConvTail::kSilu)),
      conv_unit_sample("depthwise 5x5, stride 2", {2, 9, 8, 20}, {20, 1, 5, 5}, false,
                       window(2, 2, 1, 20, ConvTail::kSilu)),
      conv_unit_sample("depthwise 7x7", {1, 10, 9, 16}, {16, 1, 7, 7}, false,
                       window(1, 3, 1, 16, ConvTail::kNone)),
      conv_unit_sample("depthwise, filter above image", {1, 2, 3, 18}, {18, 1, 5, 5}, false,
                       window(1, 2, 1, 18, ConvTail::kClip)),
      conv_unit_sample("depthwise, no padding", {1, 6, 8, 17}, {17, 1, 3, 3}, false,
                       window(1, 0, 1, 17, ConvTail::kNone)),
      conv_unit_sample("depthwise, dilation", {1, 12, 10, 16}, {16, 1, 3, 3}, false,
                       window(1, 2, 2, 16, ConvTail::kClip)),
      conv_unit_sample("depthwise, padding above filter", {1, 3, 3, 16}, {16, 1, 1, 1}, true,
                       window(1, 1, 1, 16, ConvTail::kNone)),
      conv_unit_sample("depthwise, unequal everything", {1, 9, 12, 16}, {16, 1, 3, 2}, false,
                       ConvUnitAttrs{.stride = {2, 1}, .padding = {0, 1}, .dilation = {1, 3}, .groups = 16}),
  };
  all.push_back(conv_unit_sample("no bias", {1, 4, 4, 8}, {16, 8, 1, 1}, false, plain));
  all.back().inputs.pop_back();
  return all;
}

double conv_unit_flops(std::span<const TensorSpec> inputs, const Attrs& attrs) {
  return conv2d_shape(inputs[0].shape, inputs[1].shape, attrs.as<ConvUnitAttrs>().conv2d()).flops();
}

}  // namespace

void run_in_parts(const ConvUnitParts& parts, const ForwardArgs& args) {
  const auto& attrs = args.attrs.as<ConvUnitAttrs>();
  Tensor y = args.outputs[0];
  const bool has_tail = attrs.tail != ConvTail::kNone, has_residual = has_input(args.inputs, kResidual);
  // Each op writes to its own memory, because kernels may assume that inputs and outputs don't overlap.
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
    .infer = conv_unit_rule,
    .differentiable = 0,
    .autocast = Autocast::kLow,
    .batch_inputs = bit(0) | bit(kResidual),
    .samples = conv_unit_samples,
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
    .flops = conv_unit_flops,
};

Tensor conv_unit(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& residual,
                 const ConvUnitAttrs& attrs) {
  return apply_one(conv_unit_op, {x, weight, bias, residual}, attrs);
}

namespace {

constexpr size_t kInnerBias = 3, kOuterBias = 4;

Tensor input_or_none(std::span<const Tensor> inputs, size_t i) {
  return has_input(inputs, i) ? inputs[i] : Tensor();
}

std::vector<TensorSpec> conv_pair_rule(std::span<const TensorSpec> inputs, std::span<const bool> defined,
                                       const Attrs& any_attrs) {
  const auto& attrs = any_attrs.as<ConvPairAttrs>();
  const auto unit = [&](const TensorSpec& x, size_t weight, size_t bias, const ConvUnitAttrs& of_unit) {
    const bool has_bias = has_input(defined, bias);
    const std::array<TensorSpec, 3> specs = {x, inputs[weight], has_bias ? inputs[bias] : TensorSpec{}};
    const std::array<bool, 3> is_there = {true, true, has_bias};
    return conv_unit_op.infer(specs, is_there, of_unit);
  };
  const TensorSpec between = unit(inputs[0], 1, kInnerBias, attrs.inner())[0];
  if (inputs[1].shape[2] != 1 || inputs[1].shape[3] != 1)
    refuse("conv_pair", "expected inner weights [M,C,1,1], got ", inputs[1].shape.to_string());
  return unit(between, 2, kOuterBias, attrs.outer(between.shape[3]));
}

OpSample conv_pair_sample(const char* name, Shape x, int64_t middle, int64_t side, ConvPairAttrs attrs) {
  OpSample sample;
  sample.name = name;
  sample.inputs = {
      {x}, {Shape{middle, x[3], 1, 1}}, {Shape{middle, 1, side, side}}, {Shape{middle}}, {Shape{middle}}};
  sample.attrs = attrs;
  return sample;
}

std::vector<OpSample> conv_pair_samples() {
  const auto window = [](int stride, int padding, int dilation, ConvTail tail) {
    return ConvPairAttrs{.inner_tail = tail,
                         .inner_low = -0.5,
                         .inner_high = 0.75,
                         .stride = {stride, stride},
                         .padding = {padding, padding},
                         .dilation = {dilation, dilation},
                         .tail = tail,
                         .low = -0.25,
                         .high = 0.5};
  };
  std::vector<OpSample> all = {
      conv_pair_sample("3x3", {2, 7, 6, 8}, 96, 3, window(1, 1, 1, ConvTail::kClip)),
      conv_pair_sample("3x3, stride 2", {1, 12, 11, 5}, 40, 3, window(2, 1, 1, ConvTail::kSilu)),
      conv_pair_sample("5x5, odd channels", {1, 9, 8, 3}, 37, 5, window(1, 2, 1, ConvTail::kNone)),
      conv_pair_sample("few channels", {1, 6, 6, 4}, 7, 3, window(1, 1, 1, ConvTail::kClip)),
      conv_pair_sample("no padding", {1, 6, 7, 4}, 70, 3, window(1, 0, 1, ConvTail::kNone)),
      conv_pair_sample("dilation", {1, 9, 9, 4}, 16, 3, window(1, 2, 2, ConvTail::kSilu)),
      // All rows with all channels don't fit into a core's cache.
      conv_pair_sample("bands", {1, 90, 110, 2}, 50, 3, window(1, 1, 1, ConvTail::kClip)),
      conv_pair_sample("bands, 5x5, stride 2", {1, 85, 120, 2}, 48, 5, window(2, 2, 1, ConvTail::kNone)),
  };
  all.push_back(conv_pair_sample("no biases", {1, 5, 5, 4}, 16, 3, window(1, 1, 1, ConvTail::kClip)));
  all.back().inputs.resize(kInnerBias);
  return all;
}

Conv2dShape shape_of(std::span<const TensorSpec> inputs, const Attrs& attrs) {
  const Shape& x = inputs[0].shape;
  const int64_t middle = inputs[1].shape[0];
  return conv2d_shape({x[0], x[1], x[2], middle}, inputs[2].shape,
                      attrs.as<ConvPairAttrs>().outer(middle).conv2d());
}

double conv_pair_flops(std::span<const TensorSpec> inputs, const Attrs& attrs) {
  const Conv2dShape outer = shape_of(inputs, attrs);
  return outer.flops() + 2.0 * static_cast<double>(outer.n * outer.h * outer.w) *
                             static_cast<double>(inputs[1].shape.elements());
}

}  // namespace

void run_as_units(const Kernels& conv_unit, const ForwardArgs& args) {
  const auto& attrs = args.attrs.as<ConvPairAttrs>();
  const Tensor& x = args.inputs[0];
  const int64_t middle = args.inputs[1].size(0);
  Tensor between =
      Tensor::empty({{x.size(0), x.size(1), x.size(2), middle}, x.dtype(), Layout::kPlain}, x.device());
  const std::array<Tensor, 3> inner = {x, args.inputs[1], input_or_none(args.inputs, kInnerBias)};
  conv_unit.forward({inner, {&between, 1}, attrs.inner()});
  const std::array<Tensor, 3> outer = {between, args.inputs[2], input_or_none(args.inputs, kOuterBias)};
  conv_unit.forward({outer, args.outputs, attrs.outer(middle)});
}

extern const OpRecord conv_pair_op;
const OpRecord conv_pair_op{
    .name = "conv_pair",
    .attr_form = &attr_form<ConvPairAttrs>,
    .input_count = {3, 5},
    .infer = conv_pair_rule,
    .differentiable = 0,
    .autocast = Autocast::kLow,
    .batch_inputs = bit(0),
    .samples = conv_pair_samples,
    .bench =
        [] {
          const ConvPairAttrs clip{.inner_tail = ConvTail::kClip,
                                   .inner_low = 0,
                                   .inner_high = 6,
                                   .padding = {1, 1},
                                   .tail = ConvTail::kClip,
                                   .low = 0,
                                   .high = 6};
          return std::vector<OpSample>{
              {"56x56", {{{2, 56, 56, 24}}, {{144, 24, 1, 1}}, {{144, 1, 3, 3}}}, clip}};
        },
    .f32 = {4e-4, 4e-5, "f32 sums of c, then of kh*kw products, in another order than f64's"},
    .bf16 = {6e-2, 6e-2, "inputs, outputs and what lies between are rounded to 8 bits; sums are f32"},
    .f16 = {8e-3, 8e-3, "inputs, outputs and what lies between are rounded to 11 bits; sums are f32"},
    .flops = conv_pair_flops,
};

Tensor conv_pair(const Tensor& x, const Tensor& inner_weight, const Tensor& outer_weight,
                 const Tensor& inner_bias, const Tensor& outer_bias, const ConvPairAttrs& attrs) {
  return apply_one(conv_pair_op, {x, inner_weight, outer_weight, inner_bias, outer_bias}, attrs);
}

}  // namespace dlpipe::engine
