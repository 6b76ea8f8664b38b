#include "dlpipe/engine/ops/cross_entropy.h"

#include <algorithm>
#include <cmath>

#include "dlpipe/engine/reference/element.h"

namespace dlpipe::engine {

namespace {

Tensor weight_of(std::span<const Tensor> inputs) {
  return inputs.size() > 2 ? inputs[2] : Tensor();
}

void forward(const ForwardArgs& args) {
  const Tensor& logits = args.inputs[0];
  const int64_t classes = logits.size(1);
  const double smoothing = args.attrs.as<CrossEntropyAttrs>().label_smoothing;
  const CrossEntropyTargets targets(args.inputs[1], weight_of(args.inputs), classes);
  double loss = 0;
  for (int64_t row = 0; row < targets.rows; ++row) {
    const auto x = [&](int64_t k) { return reference::element(logits, row * classes + k); };
    double largest = x(0);
    for (int64_t k = 1; k < classes; ++k) largest = std::max(largest, x(k));
    double sum = 0;
    for (int64_t k = 0; k < classes; ++k) sum += std::exp(x(k) - largest);
    const double log_sum = std::log(sum);
    reference::set_element(args.outputs[1], 2 * row, largest);
    reference::set_element(args.outputs[1], 2 * row + 1, log_sum);
    if (targets.weight(row) == 0) continue;
    // Wanted by smoothing alone: it is infinite where a class is impossible, and 0 of it is NaN.
    double sum_log_p = 0;
    for (int64_t k = 0; smoothing != 0 && k < classes; ++k) sum_log_p += x(k) - largest - log_sum;
    loss -= targets.weight(row) * ((1 - smoothing) * (x(targets.label[row]) - largest - log_sum) +
                                   smoothing / static_cast<double>(classes) * sum_log_p);
  }
  reference::set_element(args.outputs[0], 0, targets.weight_sum == 0 ? 0 : loss / targets.weight_sum);
}

// dx[n,k] = w_n / sum w (p[n,k] - (1-s) [k == label] - s/K)
void backward(const BackwardArgs& args) {
  const Tensor& logits = args.inputs[0];
  const Tensor& grad_x = args.grad_inputs[0];
  const int64_t classes = grad_x.size(1);
  const double smoothing = args.attrs.as<CrossEntropyAttrs>().label_smoothing;
  const CrossEntropyTargets targets(args.inputs[1], weight_of(args.inputs), classes);
  const double grad = reference::element(args.grad_outputs[0], 0);
  for (int64_t row = 0; row < targets.rows; ++row) {
    const double weight = targets.weight(row);
    const double factor = weight == 0 ? 0 : weight / targets.weight_sum * grad;
    const double log_of_all =
        reference::element(args.outputs[1], 2 * row) + reference::element(args.outputs[1], 2 * row + 1);
    for (int64_t k = 0; k < classes; ++k) {
      const double wanted =
          (k == targets.label[row] ? 1 - smoothing : 0) + smoothing / static_cast<double>(classes);
      const double p = std::exp(reference::element(logits, row * classes + k) - log_of_all);
      reference::set_element(grad_x, row * classes + k, weight == 0 ? 0 : factor * (p - wanted));
    }
  }
}

}  // namespace

extern const Kernels cross_entropy_reference;
const Kernels cross_entropy_reference = {.forward = forward, .backward = backward};

}  // namespace dlpipe::engine
