// flatten: [N,...] -> [N,K]. Images [N,H,W,C] are emitted in C,H,W order, the order in which PyTorch's linear
// weights expect them; everything else in row-major order.
#include "dlpipe/engine/ops/bench_samples.h"
#include "dlpipe/engine/ops/ops.h"
#include "dlpipe/engine/ops/shape_rules.h"
#include "dlpipe/engine/ops/view.h"

namespace dlpipe::engine {

namespace {

Shape flat_shape(const Shape& shape) {
  int64_t count = 1;
  for (int i = 1; i < shape.rank(); ++i) count *= shape[i];
  return {shape[0], count};
}

std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs, std::span<const bool>, const Attrs&) {
  expect_inputs("flatten", inputs, 1, 1);
  if (inputs[0].shape.rank() == 0) reject("flatten", "expected [N,...], got a scalar; reshape() it first");
  return {{flat_shape(inputs[0].shape), inputs[0].dtype}};
}

// C,H,W order is the order in memory already where there is one channel or one pixel.
bool keeps_order(const Shape& shape) {
  return shape.rank() != 4 || shape[3] == 1 || shape[1] * shape[2] == 1;
}

std::vector<OpSample> samples() {
  return {{"images", {{{2, 3, 5, 4}}}, Attrs{}},    {"one channel", {{{2, 3, 5, 1}}}, Attrs{}},
          {"one pixel", {{{2, 1, 1, 9}}}, Attrs{}}, {"rows", {{{3, 4}}}, Attrs{}},
          {"sequence", {{{2, 3, 4}}}, Attrs{}},     {"large images", {{{20, 17, 13, 24}}}, Attrs{}}};
}

}  // namespace

extern const OpRecord flatten_op;
const OpRecord flatten_op = {
    .name = "flatten",
    .infer = infer,
    .autocast = Autocast::kAsIs,
    .batch_inputs = bit(0),
    .view =
        [](const Tensor& x, const Attrs&) {
          return keeps_order(x.shape()) ? reshaped_view(x, flat_shape(x.shape())) : Tensor();
        },
    .view_gradient = [](size_t, const Tensor& grad, const Shape& input,
                        const Attrs&) { return keeps_order(input) ? reshaped_view(grad, input) : Tensor(); },
    .samples = samples,
    .bench =
        [] {
          return large_sample(samples(), {{{128, 14, 14, 512}}});
        },
};

Tensor flatten(const Tensor& x) {
  return apply_one(flatten_op, {x});
}

}  // namespace dlpipe::engine
