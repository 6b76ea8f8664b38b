// Softmax, its logarithm, and the losses.
#include "engine/ops/losses.h"

#include "dlpipe/ops.h"
#include "engine/core/attr_form.h"
#include "engine/ops/elementwise.h"
#include "engine/ops/records.h"
#include "engine/ops/shape_ops.h"

namespace dlpipe::engine {

// softmax: e^x / sum e^x along an axis. The largest value is subtracted from x first, so that nothing overflows.

std::vector<TensorSpec> softmax_rule(std::string_view op, std::span<const TensorSpec> inputs,
                                     const Attrs& attrs) {
  expect_inputs(op, inputs, 1, 1);
  expect_floating(op, inputs[0], "x");
  const int axis = attrs.as<SoftmaxAttrs>().axis;
  expect_axis(op, axis, inputs[0].shape.rank());
  if (inputs[0].shape[axis] == 0)
    reject(op, concat("axis ", axis, " of ", inputs[0].shape.to_string(), " is empty"));
  return {{inputs[0].shape, inputs[0].dtype}};
}

std::vector<OpSample> softmax_samples() {
  return {{"rows", {{{5, 37}}}, SoftmaxAttrs{1}, -4, 4},
          {"columns", {{{7, 5}}}, SoftmaxAttrs{0}, -4, 4},
          {"middle axis", {{{2, 5, 3}}}, SoftmaxAttrs{1}, -4, 4},
          {"many rows", {{{900, 40}}}, SoftmaxAttrs{1}, -4, 4}};
}

extern const OpRecord softmax_op;
const OpRecord softmax_op = {
    .name = "softmax",
    .attr_form = &attr_form<SoftmaxAttrs>,
    .infer = [](auto inputs, auto, const Attrs& attrs) { return softmax_rule("softmax", inputs, attrs); },
    .save_outputs = bit(0),
    .autocast = Autocast::kF32,
    .batch_inputs = bit(0),
    .by_sample = is_off_axis_0<SoftmaxAttrs>,
    .samples = softmax_samples,
    .bench =
        [] {
          return std::vector<OpSample>{{"rows", {{{16384, 1024}}}, SoftmaxAttrs{1}}};
        },
};

Tensor softmax(const Tensor& x, int axis) {
  return apply_one(softmax_op, {x}, SoftmaxAttrs{checked_axis("softmax", axis, x.rank())});
}

// log_softmax: x - log sum e^x along an axis. The largest value is subtracted from x first, so that nothing overflows.

extern const OpRecord log_softmax_op;
const OpRecord log_softmax_op = {
    .name = "log_softmax",
    .attr_form = &attr_form<SoftmaxAttrs>,
    .infer = [](auto inputs, auto, const Attrs& attrs) { return softmax_rule("log_softmax", inputs, attrs); },
    .save_outputs = bit(0),
    .autocast = Autocast::kF32,
    .batch_inputs = bit(0),
    .by_sample = is_off_axis_0<SoftmaxAttrs>,
    .samples = softmax_samples,
    .bench =
        [] {
          return std::vector<OpSample>{{"rows", {{{16384, 1024}}}, SoftmaxAttrs{1}}};
        },
};

Tensor log_softmax(const Tensor& x, int axis) {
  return apply_one(log_softmax_op, {x}, SoftmaxAttrs{checked_axis("log_softmax", axis, x.rank())});
}

// cross_entropy: sum of w_n l_n / sum of w_n with l_n = -(1-s) log p_n[label_n] - s/K sum_k log p_n[k], p =
// softmax of the logits, s = label smoothing (Szegedy et al., "Rethinking the Inception Architecture", 2016,
// section 7). Inputs: logits [N,K], target i64 [N], weight [N] or absent. A sample with weight 0 is
// ignored, and its label may be anything; if all weights are 0, the loss is 0. Logits of any precision are read
// without a cast and computed in f32, and so is the loss (f64 for f64). Hidden output: each row's largest logit and the
// logarithm of the sum of exp(logit - largest), [N,2]. So log p is never stored: for a vocabulary it would be the
// largest tensor.

namespace {

std::vector<TensorSpec> cross_entropy_rule(std::span<const TensorSpec> inputs, std::span<const bool> defined,
                                           const Attrs& attrs) {
  expect_inputs("cross_entropy", inputs, 2, 3);
  const TensorSpec& logits = inputs[0];
  expect_floating("cross_entropy", logits, "logits");
  expect_rank("cross_entropy", logits, 2, "logits [N,K]");
  expect_dtype("cross_entropy", inputs[1], DType::kI64, "targets");
  expect_shape("cross_entropy", inputs[1], {logits.shape[0]}, "targets [N]");
  if (logits.shape[1] == 0) reject("cross_entropy", "expected at least one class, got none");
  const DType computed = logits.dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  if (inputs.size() == 3 && defined[2]) {
    expect_dtype("cross_entropy", inputs[2], computed, "weights");
    expect_shape("cross_entropy", inputs[2], {logits.shape[0]}, "weights [N]");
  }
  const double smoothing = attrs.as<CrossEntropyAttrs>().label_smoothing;
  if (!(smoothing >= 0 && smoothing <= 1)) {
    reject("cross_entropy", concat("expected a label smoothing from 0 to 1, got ", smoothing));
  }
  return {{{}, computed}, {{logits.shape[0], 2}, computed}};
}

std::vector<OpSample> cross_entropy_samples() {
  std::vector<OpSample> samples = {
      {"plain", {{{6, 5}}, {{6}, DType::kI64}}, CrossEntropyAttrs{}, -3, 3, 5},
      {"smoothed", {{{6, 5}}, {{6}, DType::kI64}}, CrossEntropyAttrs{0.2}, -3, 3, 5},
      {"weighted", {{{6, 5}}, {{6}, DType::kI64}, {{6}}}, CrossEntropyAttrs{0.1}, 0.1, 3, 5},
      {"many samples", {{{900, 40}}, {{900}, DType::kI64}, {{900}}}, CrossEntropyAttrs{0.1}, 0.1, 3, 40},
  };
  return samples;
}

}  // namespace

CrossEntropyTargets::CrossEntropyTargets(const Tensor& target, const Tensor& weight, int64_t classes,
                                         const char* op)
    : label(target.data<int64_t>()), rows(target.elements()) {
  if (weight.defined() && weight.dtype() == DType::kF32) weight32 = weight.data<float>();
  if (weight.defined() && weight.dtype() == DType::kF64) weight64 = weight.data<double>();
  for (int64_t row = 0; row < rows; ++row) {
    const double w = this->weight(row);
    weight_sum += w;
    if (w != 0 && (label[row] < 0 || label[row] >= classes)) {
      reject(op, concat("label ", label[row], " of sample ", row, " is not one of ", classes,
                        " classes; compare the model's classes with the dataset's"));
    }
  }
}

extern const OpRecord cross_entropy_op;
const OpRecord cross_entropy_op = {
    .name = "cross_entropy",
    .attr_form = &attr_form<CrossEntropyAttrs>,
    .input_count = {2, 3},
    .infer = cross_entropy_rule,
    .save_inputs = bit(0) | bit(1) | bit(2),
    .save_outputs = bit(1),
    .differentiable = bit(0),
    .autocast = Autocast::kAsIs,
    .samples = cross_entropy_samples,
    .bench =
        [] {
          return std::vector<OpSample>{
              {"rows", {{{16384, 1000}}, {{16384}, DType::kI64}}, CrossEntropyAttrs{}, -1, 1, 1000},
              {"a vocabulary", {{{2048, 50257}}, {{2048}, DType::kI64}}, CrossEntropyAttrs{}, -1, 1, 50257}};
        },
    .f32 = {1e-5, 1e-6, "a mean over 900 samples, added in double"},
};

Tensor cross_entropy(const Tensor& logits, const Tensor& target, const Tensor& weight,
                     double label_smoothing) {
  std::vector<Tensor> inputs = {logits, target};
  if (weight.defined()) inputs.push_back(weight);
  return apply_one(cross_entropy_op, std::move(inputs), CrossEntropyAttrs{label_smoothing});
}

// mse: the mean of (x - target)^2 over all elements.

namespace {

std::vector<TensorSpec> mse_rule(std::span<const TensorSpec> inputs, std::span<const bool>, const Attrs&) {
  expect_inputs("mse", inputs, 2, 2);
  expect_floating("mse", inputs[0], "x");
  expect_floating("mse", inputs[1], "target");
  expect_shape("mse", inputs[1], inputs[0].shape, "a target like x");
  if (inputs[0].shape.elements() == 0) reject("mse", "expected at least one element, got none");
  return {{{}, inputs[0].dtype}};
}

std::vector<OpSample> mse_samples() {
  return {{"rows", {{{5, 7}}, {{5, 7}}}, Attrs{}}, {"large", {{{3, 40001}}, {{3, 40001}}}, Attrs{}}};
}

}  // namespace

extern const OpRecord mse_op;
const OpRecord mse_op = {
    .name = "mse",
    .input_count = {2, 2},
    .infer = mse_rule,
    .save_inputs = bit(0) | bit(1),
    .autocast = Autocast::kF32,
    .samples = mse_samples,
    .bench =
        [] {
          return large_sample(mse_samples(), {{{16384, 1024}}, {{16384, 1024}}});
        },
    .f32 = {1e-5, 1e-7, "a mean of up to 120,000 squares, partial sums added in double"},
};

Tensor mse(const Tensor& x, const Tensor& target) {
  return apply_one(mse_op, {x, target});
}

}  // namespace dlpipe::engine
