#include "dlpipe/engine/ops/conv_pair.h"

#include "dlpipe/engine/core/attr_form.h"
#include "dlpipe/engine/ops/window.h"

namespace dlpipe::engine {

extern const OpRecord conv_unit_op;

namespace {

constexpr size_t kInnerBias = 3, kOuterBias = 4;

Tensor input_or_none(std::span<const Tensor> inputs, size_t i) {
  return has_input(inputs, i) ? inputs[i] : Tensor();
}

std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs, std::span<const bool> defined,
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

OpSample sample(const char* name, Shape x, int64_t middle, int64_t side, ConvPairAttrs attrs) {
  OpSample sample;
  sample.name = name;
  sample.inputs = {
      {x}, {Shape{middle, x[3], 1, 1}}, {Shape{middle, 1, side, side}}, {Shape{middle}}, {Shape{middle}}};
  sample.attrs = attrs;
  return sample;
}

std::vector<OpSample> samples() {
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
      sample("3x3", {2, 7, 6, 8}, 96, 3, window(1, 1, 1, ConvTail::kClip)),
      sample("3x3, stride 2", {1, 12, 11, 5}, 40, 3, window(2, 1, 1, ConvTail::kSilu)),
      sample("5x5, odd channels", {1, 9, 8, 3}, 37, 5, window(1, 2, 1, ConvTail::kNone)),
      sample("few channels", {1, 6, 6, 4}, 7, 3, window(1, 1, 1, ConvTail::kClip)),
      sample("no padding", {1, 6, 7, 4}, 70, 3, window(1, 0, 1, ConvTail::kNone)),
      sample("dilation", {1, 9, 9, 4}, 16, 3, window(1, 2, 2, ConvTail::kSilu)),
      // More rows of all channels than a core's cache holds.
      sample("bands", {1, 90, 110, 2}, 50, 3, window(1, 1, 1, ConvTail::kClip)),
      sample("bands, 5x5, stride 2", {1, 85, 120, 2}, 48, 5, window(2, 2, 1, ConvTail::kNone)),
  };
  all.push_back(sample("no biases", {1, 5, 5, 4}, 16, 3, window(1, 1, 1, ConvTail::kClip)));
  all.back().inputs.resize(kInnerBias);
  return all;
}

Conv2dShape shape_of(std::span<const TensorSpec> inputs, const Attrs& attrs) {
  const Shape& x = inputs[0].shape;
  const int64_t middle = inputs[1].shape[0];
  return conv2d_shape({x[0], x[1], x[2], middle}, inputs[2].shape,
                      attrs.as<ConvPairAttrs>().outer(middle).conv2d());
}

double flops(std::span<const TensorSpec> inputs, const Attrs& attrs) {
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
    .infer = infer,
    .differentiable = 0,
    .autocast = Autocast::kLow,
    .batch_inputs = bit(0),
    .samples = samples,
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
    .flops = flops,
};

Tensor conv_pair(const Tensor& x, const Tensor& inner_weight, const Tensor& outer_weight,
                 const Tensor& inner_bias, const Tensor& outer_bias, const ConvPairAttrs& attrs) {
  return apply_one(conv_pair_op, {x, inner_weight, outer_weight, inner_bias, outer_bias}, attrs);
}

}  // namespace dlpipe::engine
