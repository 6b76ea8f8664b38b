// add_layer_norm: the residual stream of a transformer goes on, s = x + branch, and is normalised for the
// next branch, y = layer_norm(s), in one pass over memory forward and one backward. s has the wider dtype, y
// the one that whoever reads it wants, so nothing is cast by itself. Hidden outputs: as layer_norm's, of s.
#include "dlpipe/engine/core/attr_form.h"
#include "dlpipe/engine/ops/layer_norm.h"
#include "dlpipe/engine/ops/ops.h"
#include "dlpipe/engine/ops/shape_rules.h"

namespace dlpipe::engine {
namespace {

std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs, std::span<const bool>, const Attrs& attrs) {
  expect_inputs("add_layer_norm", inputs, 4, 4);
  const TensorSpec& x = inputs[0];
  const TensorSpec& branch = inputs[1];
  expect_floating("add_layer_norm", branch, "branch");
  expect_shape("add_layer_norm", branch, x.shape, "a branch like x");
  if ((x.dtype == DType::kF64) != (branch.dtype == DType::kF64))
    expect_dtype("add_layer_norm", branch, x.dtype, "branch");
  TensorSpec sum = {x.shape, x.dtype};
  if (x.dtype != branch.dtype) sum.dtype = DType::kF32;
  std::vector<TensorSpec> outputs =
      layer_norm_outputs("add_layer_norm", sum, inputs[2], inputs[3], attrs.as<LayerNormAttrs>());
  outputs.insert(outputs.begin(), sum);
  return outputs;
}

}  // namespace

std::span<const Tensor> residual_gradients(std::span<Tensor> grads) {
  if (!grads[0].defined() || !grads[1].defined() || grads[0].dtype() != grads[1].dtype())
    return grads.first(2);
  grads[1] = grads[0];
  return grads.first(1);
}

extern const OpRecord add_layer_norm_op;
const OpRecord add_layer_norm_op = {
    .name = "add_layer_norm",
    .attr_form = &attr_form<LayerNormAttrs>,
    .input_count = {4, 4},
    .infer = infer,
    .visible_outputs = 2,
    .save_inputs = bit(2),
    .save_outputs = bit(0) | bit(2) | bit(3),
    .autocast = Autocast::kAsIs,
    .image_inputs = bit(0) | bit(1),
    .samples = [] { return layer_norm_samples(2); },
    .bench =
        [] {
          return std::vector<OpSample>{
              {"rows", {{{16384, 1024}}, {{16384, 1024}}, {{1024}}, {{1024}}}, LayerNormAttrs{}}};
        },
    .f32 = {1e-4, 1e-5, "the gradients of gamma and beta are sums over 900 rows"},
    .f16 = {1e-2, 1e-2, "s is rounded to 11 bits, and gamma's gradient sums 900 of its norms"},
    .flops = [](std::span<const TensorSpec> inputs,
                const Attrs&) { return 9.0 * static_cast<double>(inputs[0].shape.elements()); },
};

std::array<Tensor, 2> add_layer_norm(const Tensor& x, const Tensor& branch, const Tensor& gamma,
                                     const Tensor& beta, double epsilon, DType output) {
  std::vector<Tensor> both =
      apply(add_layer_norm_op, {x, branch, gamma, beta}, LayerNormAttrs{epsilon, output});
  return {std::move(both[0]), std::move(both[1])};
}

}  // namespace dlpipe::engine
