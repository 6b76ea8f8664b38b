// cross_entropy: sum of w_n l_n / sum of w_n with l_n = -(1-s) log p_n[label_n] - s/K sum_k log p_n[k], p =
// softmax of the logits, s = label smoothing (Szegedy et al., "Rethinking the Inception Architecture", 2016,
// section 7). Inputs: logits [N,K], target i64 [N], weight [N] or absent. A sample of weight 0 counts for
// nothing, its label may be anything; if all are 0, the loss is 0. Logits of any precision are read as they
// are and computed in f32, as is the loss (f64 of f64). Hidden output: each row's largest logit and the
// logarithm of the sum of exp(logit - largest), [N,2], so that log p is never in memory: of a vocabulary it
// is the largest tensor there is.
#include "dlpipe/engine/ops/cross_entropy.h"

#include "dlpipe/engine/core/attr_form.h"
#include "dlpipe/engine/ops/ops.h"
#include "dlpipe/engine/ops/shape_rules.h"

namespace dlpipe::engine {

namespace {

std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs, std::span<const bool> defined,
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

std::vector<OpSample> samples() {
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
                        " classes; check the model's classes against the data set's"));
    }
  }
}

extern const OpRecord cross_entropy_op;
const OpRecord cross_entropy_op = {
    .name = "cross_entropy",
    .attr_form = &attr_form<CrossEntropyAttrs>,
    .input_count = {2, 3},
    .infer = infer,
    .save_inputs = bit(0) | bit(1) | bit(2),
    .save_outputs = bit(1),
    .differentiable = bit(0),
    .autocast = Autocast::kAsIs,
    .samples = samples,
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

}  // namespace dlpipe::engine
