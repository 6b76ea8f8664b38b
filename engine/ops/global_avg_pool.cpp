// global_avg_pool: the mean of every channel of every image, [N,H,W,C] -> [N,C].
#include "dlpipe/engine/core/op.h"
#include "dlpipe/engine/ops/elementwise.h"
#include "dlpipe/engine/ops/ops.h"
#include "dlpipe/engine/ops/window.h"

namespace dlpipe::engine {
namespace {

std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs, std::span<const bool>, const Attrs&) {
  const TensorSpec& x = inputs[0];
  if (x.shape.rank() != 4 || !is_floating(x.dtype) || x.shape[1] * x.shape[2] == 0) {
    refuse("global_avg_pool", "expected floating images [N,H,W,C], got ", dtype_name(x.dtype), " ",
           x.shape.to_string(), "; reshape or cast");
  }
  return {{{x.shape[0], x.shape[3]}, x.dtype, Layout::kPlain}};
}

std::vector<OpSample> samples() {
  std::vector<OpSample> samples(3);
  samples[0].name = "whole blocks";
  samples[0].inputs = {{{2, 4, 5, 16}}};
  samples[1].name = "odd channels";
  samples[1].inputs = {{{3, 3, 2, 5}}};
  samples[2].name = "one pixel";
  samples[2].inputs = {{{2, 1, 1, 8}}};
  return samples;
}

double flops(std::span<const TensorSpec> inputs, const Attrs&) {
  return static_cast<double>(inputs[0].shape.elements());
}

}  // namespace

extern const OpRecord global_avg_pool_op;
const OpRecord global_avg_pool_op{
    .name = "global_avg_pool",
    .infer = infer,
    .layouts = kAllLayouts,
    .image_outputs = 0,
    .batch_inputs = bit(0),
    .samples = samples,
    .bench =
        [] {
          return std::vector<OpSample>{{"large", {{{256, 7, 7, 2048}}}, NoAttrs{}},
                                       {"of a small batch", {{{64, 7, 7, 2048}}}, NoAttrs{}}};
        },
    .f32 = {1e-5, 1e-6, "f32 sums of h*w values"},
    .flops = flops,
};

Tensor global_avg_pool(const Tensor& x) {
  return apply_one(global_avg_pool_op, {x});
}

}  // namespace dlpipe::engine
