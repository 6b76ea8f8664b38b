#include "dlpipe/engine/ops/cross_entropy.h"

#include <algorithm>
#include <cmath>

#include "dlpipe/engine/reference/typed.h"

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
  reference::typed(logits.dtype(), [&]<class T>(T) {
    double loss = 0;
    for (int64_t row = 0; row < targets.rows; ++row) {
      const T* x = logits.data<T>() + row * classes;
      T* log_p = args.outputs[1].data<T>() + row * classes;
      const T largest = *std::max_element(x, x + classes);
      double sum = 0;
      for (int64_t k = 0; k < classes; ++k) sum += std::exp(x[k] - largest);
      double sum_log_p = 0;
      for (int64_t k = 0; k < classes; ++k)
        sum_log_p += log_p[k] = x[k] - largest - static_cast<T>(std::log(sum));
      if (targets.weight(row) == 0) continue;
      loss -= targets.weight(row) * ((1 - smoothing) * log_p[targets.label[row]] +
                                     smoothing / static_cast<double>(classes) * sum_log_p);
    }
    args.outputs[0].data<T>()[0] = static_cast<T>(targets.weight_sum == 0 ? 0 : loss / targets.weight_sum);
  });
}

// dx[n,k] = w_n / sum w (p[n,k] - (1-s) [k == label] - s/K)
void backward(const BackwardArgs& args) {
  const Tensor& grad_x = args.grad_inputs[0];
  const int64_t classes = grad_x.size(1);
  const double smoothing = args.attrs.as<CrossEntropyAttrs>().label_smoothing;
  const CrossEntropyTargets targets(args.inputs[1], weight_of(args.inputs), classes);
  reference::typed(grad_x.dtype(), [&]<class T>(T) {
    for (int64_t row = 0; row < targets.rows; ++row) {
      T* to = grad_x.data<T>() + row * classes;
      if (targets.weight(row) == 0) {
        std::fill_n(to, classes, T(0));
        continue;
      }
      const double factor = targets.weight(row) / targets.weight_sum * args.grad_outputs[0].data<T>()[0];
      for (int64_t k = 0; k < classes; ++k) {
        const double wanted =
            (k == targets.label[row] ? 1 - smoothing : 0) + smoothing / static_cast<double>(classes);
        const double p = std::exp(args.outputs[1].data<T>()[row * classes + k]);
        to[k] = static_cast<T>(factor * (p - wanted));
      }
    }
  });
}

}  // namespace

extern const Kernels cross_entropy_reference;
const Kernels cross_entropy_reference = {.forward = forward, .backward = backward};

}  // namespace dlpipe::engine
