#include "dlpipe/engine/reference/softmax_rows.h"

namespace dlpipe::engine {

namespace {

/// dx = dy - e^y sum dy
struct LogSoftmaxRule {
  template <class T>
  static T value(T shifted, T sum) {
    return shifted - std::log(sum);
  }
  template <class T>
  static T term(T, T grad) {
    return grad;
  }
  template <class T>
  static T gradient(T y, T grad, T sum) {
    return grad - std::exp(y) * sum;
  }
};

}  // namespace

extern const Kernels log_softmax_reference;
constinit const Kernels log_softmax_reference = reference::softmax_kernels<LogSoftmaxRule>();

}  // namespace dlpipe::engine
