// mse: the mean of (x - target)^2 over all elements.
#include "dlpipe/engine/ops/bench_samples.h"
#include "dlpipe/engine/ops/elementwise.h"
#include "dlpipe/engine/ops/ops.h"
#include "dlpipe/engine/ops/shape_rules.h"

namespace dlpipe::engine {

namespace {

std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs, std::span<const bool>, const Attrs&) {
  expect_inputs("mse", inputs, 2, 2);
  expect_floating("mse", inputs[0], "x");
  expect_floating("mse", inputs[1], "target");
  expect_shape("mse", inputs[1], inputs[0].shape, "a target like x");
  if (inputs[0].shape.elements() == 0) reject("mse", "expected at least one element, got none");
  return {{{}, inputs[0].dtype}};
}

std::vector<OpSample> samples() {
  return {{"rows", {{{5, 7}}, {{5, 7}}}, Attrs{}}, {"large", {{{3, 40001}}, {{3, 40001}}}, Attrs{}}};
}

}  // namespace

extern const OpRecord mse_op;
const OpRecord mse_op = {
    .name = "mse",
    .input_count = {2, 2},
    .infer = infer,
    .save_inputs = bit(0) | bit(1),
    .autocast = Autocast::kF32,
    .samples = samples,
    .bench =
        [] {
          return large_sample(samples(), {{{16384, 1024}}, {{16384, 1024}}});
        },
    .f32 = {1e-5, 1e-7, "a mean of up to 120,000 squares, partial sums added in double"},
};

Tensor mse(const Tensor& x, const Tensor& target) {
  return apply_one(mse_op, {x, target});
}

}  // namespace dlpipe::engine
