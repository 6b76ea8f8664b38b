// batch_norm: normalises each channel by the batch's statistics (training) or the running ones, then scales,
// shifts, and optionally adds a residual and applies relu in the same pass.
//
// Inputs: x [...,C], gamma [C], beta [C], running_mean [C], running_var [C], residual with the shape of x (optional). The
// parameters and statistics are f32 for f32, bf16 and f16 images, f64 for f64. Hidden outputs, kept for
// backward: the mean [C] and 1/sqrt(var + epsilon) [C] that were used. Ioffe and Szegedy, "Batch
// Normalization", 2015: equations of algorithm 1 and of the backward in section 3.
#include "engine/ops/batch_norm.h"

#include "dlpipe/op.h"
#include "dlpipe/ops.h"
#include "engine/core/attr_form.h"
#include "engine/ops/elementwise.h"
#include "engine/ops/window.h"

namespace dlpipe::engine {
namespace {

constexpr const char* kInputNames[] = {"x", "gamma", "beta", "running_mean", "running_var", "residual"};

std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs, std::span<const bool> defined,
                              const Attrs& any_attrs) {
  const auto& attrs = any_attrs.as<BatchNormAttrs>();
  const TensorSpec& x = inputs[0];
  if (x.shape.rank() < 2 || !is_floating(x.dtype) || x.shape.elements() == 0) {
    refuse("batch_norm", "expected floating images [...,C], got ", dtype_name(x.dtype), " ",
           x.shape.to_string(), "; channels are the last axis");
  }
  const int64_t channels = x.shape[-1];
  const DType parameters = x.dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  for (size_t i = 1; i < 5; ++i) {
    if (inputs[i].shape != Shape{channels} || inputs[i].dtype != parameters) {
      refuse("batch_norm", "expected ", dtype_name(parameters), " ", kInputNames[i], " [", channels,
             "], got ", dtype_name(inputs[i].dtype), " ", inputs[i].shape.to_string());
    }
  }
  if (has_input(defined, 5) && (inputs[5].shape != x.shape || inputs[5].dtype != x.dtype)) {
    refuse("batch_norm", "expected a residual like x, ", dtype_name(x.dtype), " ", x.shape.to_string(),
           ", got ", dtype_name(inputs[5].dtype), " ", inputs[5].shape.to_string());
  }
  if (attrs.training && x.shape.elements() == channels) {
    refuse("batch_norm", "expected more than one value per channel in training, got ", x.shape.to_string(),
           "; use a larger batch or eval mode");
  }
  return {{x.shape, x.dtype, Layout::kPlain}, {{channels}, parameters}, {{channels}, parameters}};
}

OpSample sample(const char* name, Shape x, bool residual, BatchNormAttrs attrs) {
  const Shape channels{x[-1]};
  OpSample sample;
  sample.name = name;
  sample.inputs = {{x}, {channels}, {channels}, {channels}, {channels}};
  if (residual) sample.inputs.push_back({x});
  sample.attrs = attrs;
  sample.low = 0.25;  // running_var must be positive
  sample.high = 2.0;
  return sample;
}

std::vector<OpSample> samples() {
  return {
      sample("training", {3, 4, 5, 16}, false, {}),
      sample("odd channels", {2, 3, 3, 5}, false, {}),
      sample("rows", {7, 24}, false, {}),
      sample("relu", {2, 5, 4, 8}, false, {.relu = true}),
      sample("residual and relu", {2, 4, 4, 16}, true, {.relu = true}),
      sample("residual", {2, 4, 4, 3}, true, {}),
      sample("eval", {2, 3, 4, 16}, false, {.training = false}),
      sample("eval, residual and relu", {2, 3, 4, 8}, true, {.training = false, .relu = true}),
  };
}

double flops(std::span<const TensorSpec> inputs, const Attrs&) {
  return 8.0 * static_cast<double>(inputs[0].shape.elements());
}

}  // namespace

extern const OpRecord batch_norm_op;
const OpRecord batch_norm_op{
    .name = "batch_norm",
    .attr_form = &attr_form<BatchNormAttrs>,
    .input_count = {5, 6},
    .infer = infer,
    .save_inputs = bit(0) | bit(1),
    .save_outputs = bit(0) | bit(1) | bit(2),
    .reads_outputs =
        [](const Attrs& attrs) {
          // relu's gradient needs the sign of y.
          return (attrs.as<BatchNormAttrs>().relu ? bit(0) : 0) | bit(1) | bit(2);
        },
    .differentiable = bit(0) | bit(1) | bit(2) | bit(5),
    .autocast = Autocast::kAsIs,
    .layouts = kAllLayouts,
    .image_inputs = bit(0) | bit(5),
    .samples = samples,
    .bench =
        [] {
          return std::vector<OpSample>{
              {"training", {{{32, 56, 56, 64}}, {{64}}, {{64}}, {{64}}, {{64}}}, BatchNormAttrs{}, 0.25, 2}};
        },
    .f32 = {2e-4, 2e-5, "sums over n*h*w values; the gradient of x is a difference of near-equal terms"},
    .bf16 = {3e-2, 3e-2, "images are rounded to 8 bits; statistics are f32"},
    .f16 = {4e-3, 4e-3, "images are rounded to 11 bits; statistics are f32"},
    .flops = flops,
};

namespace thread_state {
StatisticsPeers*& statistics_peers() {
  thread_local StatisticsPeers* t_peers = nullptr;
  return t_peers;
}
}  // namespace thread_state

void share_moments(StatisticsPeers& peers, std::span<Moments> channels) {
  const auto parts = static_cast<double>(peers.parts());
  std::vector<float> values;
  for (const Moments& part : channels) values.push_back(static_cast<float>(part.mean));
  peers.sum(values);
  for (size_t c = 0; c < channels.size(); ++c) {
    Moments& part = channels[c];
    const double mean = values[c] / parts;
    part.squares += part.count * (part.mean - mean) * (part.mean - mean);
    part.mean = mean;
    values[c] = static_cast<float>(part.squares);
  }
  peers.sum(values);
  for (size_t c = 0; c < channels.size(); ++c) {
    channels[c].squares = values[c];
    channels[c].count *= parts;
  }
}

void share_totals(StatisticsPeers& peers, std::span<GradientTotals> channels) {
  std::vector<float> values;
  for (const GradientTotals& part : channels) {
    values.push_back(static_cast<float>(part.sum));
    values.push_back(static_cast<float>(part.weighted));
  }
  peers.sum(values);
  for (size_t c = 0; c < channels.size(); ++c) channels[c] = {values[2 * c], values[2 * c + 1]};
}

Tensor batch_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, Tensor& running_mean,
                  Tensor& running_var, const BatchNormAttrs& attrs, const Tensor& residual) {
  Tensor y = apply_one(batch_norm_op, {x, gamma, beta, running_mean, running_var, residual}, attrs);
  if (attrs.training) {
    running_mean.bump_version();
    running_var.bump_version();
  }
  return y;
}

}  // namespace dlpipe::engine
