// conv_pair on the CPU: a panel of channels at a time goes from the product to the depthwise convolution within a core's
// second-level cache; or both as conv_units.
#include "dlpipe/engine/ops/conv_pair.h"

#include <vector>

#include "dlpipe/base/text.h"
#include "dlpipe/engine/core/kernel_table.h"
#include "dlpipe/engine/core/measured_kernels.h"
#include "dlpipe/engine/cpu/conv/conv2d_choice.h"
#include "dlpipe/engine/cpu/conv/unit_bands.h"
#include "dlpipe/engine/cpu/conv/unit_bf16.h"
#include "dlpipe/engine/cpu/conv/unit_kernels.h"
#include "dlpipe/engine/cpu/conv/unit_parts.h"
#include "dlpipe/engine/cpu/loops/supports.h"

namespace dlpipe::engine {

extern const Kernels conv_unit_cpu;

namespace {

constexpr const char* kPair = "pair";
constexpr const char* kUnits = "units";

void run_pair(const ForwardArgs& args) {
  const auto& attrs = args.attrs.as<ConvPairAttrs>();
  const Tensor& x = args.inputs[0];
  const int64_t middle = args.inputs[1].size(0), channels = x.size(3),
                image = x.size(1) * x.size(2) * channels;
  const Conv2dShape s = conv2d_shape({x.size(0), x.size(1), x.size(2), middle}, args.inputs[2].shape(),
                                     attrs.outer(middle).conv2d());
  const auto bias = [&](size_t i) {
    return cpu::vectors_of_bias(has_input(args.inputs, i) ? args.inputs[i] : Tensor(), middle);
  };
  const Tensor inner_bias = bias(3), outer_bias = bias(4), panels = cpu::panels_of_weights(args.inputs[1]);
  const cpu::UnitTail inner = cpu::tail_of(attrs.inner_tail, attrs.inner_low, attrs.inner_high, inner_bias);
  const cpu::UnitTail outer = cpu::tail_of(attrs.tail, attrs.low, attrs.high, outer_bias);
  const auto product = [&]<class Product>(Product p, const cpu::UnitBand& band, const auto* images) {
    p.a = images + band.n * image + band.first * s.w * channels;
    p.a_row = p.terms = channels;
    p.rows = (band.last - band.first) * s.w;
    p.y_row = band.width;
    p.first_vector = band.begin;
    p.last_vector = band.end;
    p.columns = middle;
    p.tail = inner;
    return p;
  };
  cpu::run_in_bands(s, cpu::taps_of_weights(args.inputs[2]), outer, Tensor(), args.outputs[0],
                    [&](const cpu::UnitBand& band) {
                      if (x.dtype() == DType::kBF16) {
                        auto p = product(cpu::UnitProductBf16(), band, x.data<BFloat16>());
                        p.b = panels.data<BFloat16>();
                        p.wide = band.x;
                        cpu::unit_product_bf16(p);
                      } else {
                        auto p = product(cpu::UnitProduct(), band, x.data<float>());
                        p.b = panels.data<float>();
                        p.y = band.x;
                        cpu::unit_kernels().product(p);
                      }
                    });
}

std::string key_of(std::span<const TensorSpec> inputs, const ConvPairAttrs& attrs) {
  const Shape& x = inputs[0].shape;
  const int64_t middle = inputs[1].shape[0];
  const Conv2dShape s =
      conv2d_shape({x[0], x[1], x[2], middle}, inputs[2].shape, attrs.outer(middle).conv2d());
  return concat("conv_pair c", x[3], " ", cpu::conv_key(s, inputs[0].dtype));
}

KernelChoice choice_of(const std::string& key) {
  KernelChoice choice = kernel_table().find_or_add(key, [] { return KernelChoice{kPair}; });
  if (choice.kernel == kPair || choice.kernel == kUnits) return choice;
  throw Error(Status(ErrorCode::kCorrupt, concat("[kernels] '", choice.kernel, "' is no kernel for '", key,
                                                 "' in kernels.json; use ", kPair, " or ", kUnits)));
}

// Terms of bf16 come in pairs.
bool fits(const TensorSpec& x) {
  return cpu::has_units(x.dtype) && (x.dtype == DType::kF32 || x.shape[3] % 2 == 0);
}

void forward(const ForwardArgs& args) {
  if (args.inputs[0].size(0) == 0) return;
  if (!fits(args.inputs[0].spec())) return run_as_units(conv_unit_cpu, args);
  const std::string key = key_of(specs_of(args.inputs), args.attrs.as<ConvPairAttrs>());
  const auto run = [&] {
    choice_of(key).kernel == kPair ? run_pair(args) : run_as_units(conv_unit_cpu, args);
  };
  cpu::measure_choices(
      key,
      [] {
        return std::vector<KernelChoice>{{kPair}, {kUnits}};
      },
      run);
  run();
}

std::string explain(std::span<const TensorSpec> inputs, const Attrs& attrs, bool /*backward*/) {
  if (inputs[0].shape[0] == 0) return "nothing to do";
  return fits(inputs[0]) ? choice_of(key_of(inputs, attrs.as<ConvPairAttrs>())).kernel : kUnits;
}

}  // namespace

extern const Kernels conv_pair_cpu;
const Kernels conv_pair_cpu{
    .forward = forward,
    .supports = cpu::supports_first_f32_bf16,
    .explain = explain,
    .same_bits_on_every_isa = false,  // conv2d's kernels
};

}  // namespace dlpipe::engine
